#!/usr/bin/env bash
set -euo pipefail

NAMESPACE="${NAMESPACE:-staging}"
DEPLOYMENT="${1:?deployment name}"
IMAGE="${2:?image:tag}"
TIMEOUT="${TIMEOUT:-180s}"

current=$(kubectl -n "$NAMESPACE" get deploy "$DEPLOYMENT" -o jsonpath='{.spec.template.spec.containers[0].image}')
echo "current image: $current"
echo "new image:     $IMAGE"

if [[ "$current" == "$IMAGE" ]]; then
  echo "nothing to do"
  exit 0
fi

container=$(kubectl -n "$NAMESPACE" get deploy "$DEPLOYMENT" -o jsonpath='{.spec.template.spec.containers[0].name}')
kubectl -n "$NAMESPACE" set image "deploy/$DEPLOYMENT" "$container=$IMAGE"
kubectl -n "$NAMESPACE" annotate "deploy/$DEPLOYMENT" kubernetes.io/change-cause="image $IMAGE" --overwrite

if ! kubectl -n "$NAMESPACE" rollout status "deploy/$DEPLOYMENT" --timeout="$TIMEOUT"; then
  echo "rollout failed, going back to $current" >&2
  kubectl -n "$NAMESPACE" rollout undo "deploy/$DEPLOYMENT"
  kubectl -n "$NAMESPACE" get events --sort-by=.lastTimestamp | tail -n 20
  exit 1
fi
kubectl -n "$NAMESPACE" get pods -l "app=$DEPLOYMENT"
