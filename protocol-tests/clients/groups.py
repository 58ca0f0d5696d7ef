"""What a broker says of its groups and their committed offsets, asked in raw frames."""

import time

from .asking import Asking

LOAD_IN_PROGRESS = 14


def groups(bootstrap):
    """{group: (protocol type, state, type)}, once all coordinators are loaded."""
    ask = Asking(bootstrap)
    for _ in range(300):
        answer = ask("ListGroups", 5, {})
        if answer["ErrorCode"] != LOAD_IN_PROGRESS:
            break
        time.sleep(0.1)
    assert answer["ErrorCode"] == 0, answer
    return {group["GroupId"]: (group["ProtocolType"], group["GroupState"], group["GroupType"]) for group in answer["Groups"]}


def committed(bootstrap, require_stable=False):
    """{group: {topic-partition: (offset, leader epoch, metadata), or an error code}}"""
    body = {"Groups": [{"GroupId": group, "Topics": None} for group in groups(bootstrap)], "RequireStable": require_stable}
    found = {}
    for group in Asking(bootstrap)("OffsetFetch", 9, body)["Groups"]:
        assert group["ErrorCode"] == 0, group
        found[group["GroupId"]] = {
            f"{topic['Name']}-{partition['PartitionIndex']}": partition["ErrorCode"]
            or (partition["CommittedOffset"], partition["CommittedLeaderEpoch"], partition["Metadata"])
            for topic in group["Topics"]
            for partition in topic["Partitions"]
        }
    return found
