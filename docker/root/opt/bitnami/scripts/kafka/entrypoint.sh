#!/bin/bash
set -e
if [[ "$*" == *"/opt/bitnami/scripts/kafka/run.sh"* || "$*" == *"/run.sh"* ]]; then
  /opt/bitnami/scripts/kafka/setup.sh
fi
exec "$@"
