"""The S3 spolt: Kafka topics into files on the object store."""
