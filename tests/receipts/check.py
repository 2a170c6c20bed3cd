"""Verifies receipts with securesystemslib, and reads statement and predicates with in-toto's own message types.

usage: check.py PUBLIC.pem FILE…   status 0: all are accepted; 1: one is refused
"""

import hashlib
import json
import sys

import in_toto_attestation.predicates.test_result.v0.test_result_pb2 as test_result
import in_toto_attestation.v1.statement_pb2 as statement
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key
from google.protobuf import json_format
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

with open(sys.argv[1], "rb") as file:
    public = load_pem_public_key(file.read())
identifier = hashlib.sha256(public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()
key = SSlibKey.from_crypto(public, keyid=identifier)
status = 0
for name in sys.argv[2:]:
    with open(name, "rb") as file:
        envelope = Envelope.from_dict(json.load(file))
    try:
        envelope.verify([key], 1)
    except VerificationError as error:
        print(f"{name}: refused: {error}")
        status = 1
        continue
    parsed = json_format.Parse(envelope.payload, statement.Statement())
    assert parsed.type == "https://in-toto.io/Statement/v1" and all(one.digest for one in parsed.subject), name
    if parsed.predicate_type.startswith("https://in-toto.io/attestation/test-result/"):
        predicate = json.loads(envelope.payload)["predicate"]
        message = json_format.ParseDict(predicate, test_result.TestResult(), ignore_unknown_fields=True)
        assert message.result in ("PASSED", "FAILED") and message.configuration, name
    print(f"{name}: accepted")
sys.exit(status)
