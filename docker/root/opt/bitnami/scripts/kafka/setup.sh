#!/bin/bash
set -e
ottla container configure --like bitnami /opt/bitnami/kafka/config/server.properties
