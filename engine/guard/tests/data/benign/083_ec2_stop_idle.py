"""Lambda: stop dev instances in the evening. Triggered by an EventBridge schedule."""
import logging
import os

import boto3

logger = logging.getLogger()
logger.setLevel(logging.INFO)

ec2 = boto3.client("ec2")
sns = boto3.client("sns")


def running_dev_instances():
    paginator = ec2.get_paginator("describe_instances")
    pages = paginator.paginate(
        Filters=[
            {"Name": "tag:Environment", "Values": ["dev", "test"]},
            {"Name": "instance-state-name", "Values": ["running"]},
        ]
    )
    for page in pages:
        for reservation in page["Reservations"]:
            for inst in reservation["Instances"]:
                tags = {t["Key"]: t["Value"] for t in inst.get("Tags", [])}
                if tags.get("KeepRunning", "").lower() == "true":
                    continue
                yield inst["InstanceId"], tags.get("Name", "?")


def handler(event, context):
    found = dict(running_dev_instances())
    if not found:
        logger.info("nothing to stop")
        return {"stopped": []}
    ec2.stop_instances(InstanceIds=list(found))
    text = "Stopped: " + ", ".join(f"{name} ({iid})" for iid, name in found.items())
    logger.info(text)
    topic = os.environ.get("TOPIC_ARN")
    if topic:
        sns.publish(TopicArn=topic, Subject="Dev instances stopped", Message=text)
    return {"stopped": list(found)}
