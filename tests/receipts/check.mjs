// Verifies receipts with @sigstore/verify: a public key, no certificates, no transparency log.
//
// usage: node check.mjs PUBLIC.pem FILE…   status 0: all are accepted; 1: one is refused
import fs from "node:fs";
import { createPublicKey } from "node:crypto";
import { createRequire } from "node:module";

// The packages are installed in the current folder.
const require = createRequire(`${process.cwd()}/`);
const { Verifier, toSignedEntity } = require("@sigstore/verify");
const { toDSSEBundle } = require("@sigstore/bundle");

const [pem, ...files] = process.argv.slice(2);
const publicKey = createPublicKey(fs.readFileSync(pem));
const trust = {
  certificateAuthorities: [],
  timestampAuthorities: [],
  tlogs: [],
  ctlogs: [],
  publicKey: () => ({ publicKey, validFor: () => true }),
};
const verifier = new Verifier(trust, { tlogThreshold: 0, ctlogThreshold: 0, tsaThreshold: 0, timestampThreshold: 0 });
for (const file of files) {
  const envelope = JSON.parse(fs.readFileSync(file, "utf8"));
  const bundle = toDSSEBundle({
    artifact: Buffer.from(envelope.payload, "base64"),
    artifactType: envelope.payloadType,
    signature: Buffer.from(envelope.signatures[0].sig, "base64"),
    keyHint: envelope.signatures[0].keyid,
  });
  try {
    verifier.verify(toSignedEntity(bundle));
    console.log(`${file}: accepted`);
  } catch (error) {
    console.log(`${file}: refused: ${error.message}`);
    process.exitCode = 1;
  }
}
