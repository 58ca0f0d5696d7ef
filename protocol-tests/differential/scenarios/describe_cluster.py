"""DescribeCluster: the brokers, the controller, the cluster's id."""

from scenario import scenario


@scenario("0-2")
def describes(s, v):
    s.call("DescribeCluster", v, {})


@scenario("0-2")
def authorized_operations(s, v):
    s.call("DescribeCluster", v, {"IncludeClusterAuthorizedOperations": True})


@scenario("1-2", cases={"brokers": 1, "controllers": 2, "none": 0, "unknown": 3, "negative": -1})
def endpoint_type(s, v, kind):
    """Only a controller tells of controllers."""
    s.call("DescribeCluster", v, {"EndpointType": kind})


@scenario([1, 2], cases={"brokers": 1, "controllers": 2})
def endpoint_type_and_operations(s, v, kind):
    s.call("DescribeCluster", v, {"EndpointType": kind, "IncludeClusterAuthorizedOperations": True})


@scenario([2], cases=[True, False])
def fenced_brokers(s, v, fenced):
    s.call("DescribeCluster", v, {"IncludeFencedBrokers": fenced})


@scenario("0-2")
def unknown_tags(s, v):
    s.call("DescribeCluster", v, {"_tags": [(0, b"x"), (77, b"")]}, header_tags=[(1, b"")])


@scenario("0-2")
def same_as_the_metadata(s, v):
    cluster = s.call("DescribeCluster", v, {})
    metadata = s.quiet("Metadata", 10, {"Topics": [], "IncludeClusterAuthorizedOperations": False})
    s.record("one cluster id", cluster["ClusterId"] == metadata["ClusterId"])
    s.record("one address", [(b["BrokerId"], b["Host"], b["Port"]) for b in cluster["Brokers"]]
             == [(b["NodeId"], b["Host"], b["Port"]) for b in metadata["Brokers"]])
