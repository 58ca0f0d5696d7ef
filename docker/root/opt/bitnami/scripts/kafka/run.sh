#!/bin/bash
set -e
exec ottla container launch --like bitnami /opt/bitnami/kafka/config/server.properties
