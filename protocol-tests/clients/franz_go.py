"""franz-go of 2026: admin client, idempotent producer, consumer of partitions, fetch sessions. The steps are in ../franz-go."""

from .suite import test


@test()
def admin(run):
    run.franz_go("admin", run.topic)


@test()
def round_trip(run):
    run.franz_go("round-trip", run.topic)


@test()
def sessions(run):
    run.franz_go("sessions", run.topic)
