#!/usr/bin/env bash
set -euo pipefail

VOLUME_ID="${1:?volume id}"
DAYS="${2:-7}"
REGION="${AWS_REGION:-eu-west-1}"

aws ec2 create-snapshot --region "$REGION" --volume-id "$VOLUME_ID" \
  --description "auto $(date -I)" \
  --tag-specifications 'ResourceType=snapshot,Tags=[{Key=CreatedBy,Value=auto-snapshot}]' \
  --query SnapshotId --output text

limit=$(date -u -d "-$DAYS days" +%Y-%m-%dT%H:%M:%S)
old=$(aws ec2 describe-snapshots --region "$REGION" --owner-ids self \
  --filters "Name=volume-id,Values=$VOLUME_ID" "Name=tag:CreatedBy,Values=auto-snapshot" \
  --query "Snapshots[?StartTime<'$limit'].SnapshotId" --output text)

for snap in $old; do
  echo "deleting $snap"
  aws ec2 delete-snapshot --region "$REGION" --snapshot-id "$snap"
done
