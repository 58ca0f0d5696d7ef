//! The layout of every request of Kafka 4.3.1 but Produce and Fetch, ascending by API key.
//!
//! Written by scripts/request-schemas.py; not to be edited.

use super::Kind::{Array, Bytes, Fixed, String, Struct};
use super::{ALWAYS, RequestSchema, between, field, request, since};
use crate::protocol::versions::ApiKey;

pub const REQUESTS: &[RequestSchema] = &[
    request(
        ApiKey::ListOffsets,
        &[
            field("replica_id", Fixed(4), ALWAYS),
            field("isolation_level", Fixed(1), since(2)),
            field(
                "topics",
                Array(&Struct(&[
                    field("name", String, ALWAYS),
                    field(
                        "partitions",
                        Array(&Struct(&[
                            field("partition_index", Fixed(4), ALWAYS),
                            field("current_leader_epoch", Fixed(4), since(4)),
                            field("timestamp", Fixed(8), ALWAYS),
                        ])),
                        ALWAYS,
                    ),
                ])),
                ALWAYS,
            ),
            field("timeout_ms", Fixed(4), since(10)),
        ],
    ),
    request(
        ApiKey::Metadata,
        &[
            field(
                "topics",
                Array(&Struct(&[
                    field("topic_id", Fixed(16), since(10)),
                    field("name", String, ALWAYS).nullable(since(10)),
                ])),
                ALWAYS,
            )
            .nullable(since(1)),
            field("allow_auto_topic_creation", Fixed(1), since(4)),
            field("include_cluster_authorized_operations", Fixed(1), between(8, 10)),
            field("include_topic_authorized_operations", Fixed(1), since(8)),
        ],
    ),
    request(
        ApiKey::OffsetCommit,
        &[
            field("group_id", String, ALWAYS),
            field("generation_id_or_member_epoch", Fixed(4), since(1)),
            field("member_id", String, since(1)),
            field("group_instance_id", String, since(7)).nullable(since(7)),
            field("retention_time_ms", Fixed(8), between(2, 4)),
            field(
                "topics",
                Array(&Struct(&[
                    field("name", String, between(0, 9)),
                    field("topic_id", Fixed(16), since(10)),
                    field(
                        "partitions",
                        Array(&Struct(&[
                            field("partition_index", Fixed(4), ALWAYS),
                            field("committed_offset", Fixed(8), ALWAYS),
                            field("committed_leader_epoch", Fixed(4), since(6)),
                            field("committed_metadata", String, ALWAYS).nullable(ALWAYS),
                        ])),
                        ALWAYS,
                    ),
                ])),
                ALWAYS,
            ),
        ],
    ),
    request(
        ApiKey::OffsetFetch,
        &[
            field("group_id", String, between(0, 7)),
            field(
                "topics",
                Array(&Struct(&[
                    field("name", String, between(0, 7)),
                    field("partition_indexes", Array(&Fixed(4)), between(0, 7)),
                ])),
                between(0, 7),
            )
            .nullable(between(2, 7)),
            field(
                "groups",
                Array(&Struct(&[
                    field("group_id", String, since(8)),
                    field("member_id", String, since(9)).nullable(since(9)),
                    field("member_epoch", Fixed(4), since(9)),
                    field(
                        "topics",
                        Array(&Struct(&[
                            field("name", String, between(8, 9)),
                            field("topic_id", Fixed(16), since(10)),
                            field("partition_indexes", Array(&Fixed(4)), since(8)),
                        ])),
                        since(8),
                    )
                    .nullable(since(8)),
                ])),
                since(8),
            ),
            field("require_stable", Fixed(1), since(7)),
        ],
    ),
    request(
        ApiKey::FindCoordinator,
        &[
            field("key", String, between(0, 3)),
            field("key_type", Fixed(1), since(1)),
            field("coordinator_keys", Array(&String), since(4)),
        ],
    ),
    request(
        ApiKey::JoinGroup,
        &[
            field("group_id", String, ALWAYS),
            field("session_timeout_ms", Fixed(4), ALWAYS),
            field("rebalance_timeout_ms", Fixed(4), since(1)),
            field("member_id", String, ALWAYS),
            field("group_instance_id", String, since(5)).nullable(since(5)),
            field("protocol_type", String, ALWAYS),
            field(
                "protocols",
                Array(&Struct(&[field("name", String, ALWAYS), field("metadata", Bytes, ALWAYS)])),
                ALWAYS,
            ),
            field("reason", String, since(8)).nullable(since(8)),
        ],
    ),
    request(
        ApiKey::Heartbeat,
        &[
            field("group_id", String, ALWAYS),
            field("generation_id", Fixed(4), ALWAYS),
            field("member_id", String, ALWAYS),
            field("group_instance_id", String, since(3)).nullable(since(3)),
        ],
    ),
    request(
        ApiKey::LeaveGroup,
        &[
            field("group_id", String, ALWAYS),
            field("member_id", String, between(0, 2)),
            field(
                "members",
                Array(&Struct(&[
                    field("member_id", String, since(3)),
                    field("group_instance_id", String, since(3)).nullable(since(3)),
                    field("reason", String, since(5)).nullable(since(5)),
                ])),
                since(3),
            ),
        ],
    ),
    request(
        ApiKey::SyncGroup,
        &[
            field("group_id", String, ALWAYS),
            field("generation_id", Fixed(4), ALWAYS),
            field("member_id", String, ALWAYS),
            field("group_instance_id", String, since(3)).nullable(since(3)),
            field("protocol_type", String, since(5)).nullable(since(5)),
            field("protocol_name", String, since(5)).nullable(since(5)),
            field(
                "assignments",
                Array(&Struct(&[field("member_id", String, ALWAYS), field("assignment", Bytes, ALWAYS)])),
                ALWAYS,
            ),
        ],
    ),
    request(
        ApiKey::DescribeGroups,
        &[field("groups", Array(&String), ALWAYS), field("include_authorized_operations", Fixed(1), since(3))],
    ),
    request(
        ApiKey::ListGroups,
        &[field("states_filter", Array(&String), since(4)), field("types_filter", Array(&String), since(5))],
    ),
    request(ApiKey::SaslHandshake, &[field("mechanism", String, ALWAYS)]),
    request(
        ApiKey::ApiVersions,
        &[field("client_software_name", String, since(3)), field("client_software_version", String, since(3))],
    ),
    request(
        ApiKey::CreateTopics,
        &[
            field(
                "topics",
                Array(&Struct(&[
                    field("name", String, ALWAYS),
                    field("num_partitions", Fixed(4), ALWAYS),
                    field("replication_factor", Fixed(2), ALWAYS),
                    field(
                        "assignments",
                        Array(&Struct(&[
                            field("partition_index", Fixed(4), ALWAYS),
                            field("broker_ids", Array(&Fixed(4)), ALWAYS),
                        ])),
                        ALWAYS,
                    ),
                    field(
                        "configs",
                        Array(&Struct(&[
                            field("name", String, ALWAYS),
                            field("value", String, ALWAYS).nullable(ALWAYS),
                        ])),
                        ALWAYS,
                    ),
                ])),
                ALWAYS,
            ),
            field("timeout_ms", Fixed(4), ALWAYS),
            field("validate_only", Fixed(1), since(1)),
        ],
    ),
    request(
        ApiKey::DeleteTopics,
        &[
            field(
                "topics",
                Array(&Struct(&[
                    field("name", String, since(6)).nullable(since(6)),
                    field("topic_id", Fixed(16), since(6)),
                ])),
                since(6),
            ),
            field("topic_names", Array(&String), between(0, 5)),
            field("timeout_ms", Fixed(4), ALWAYS),
        ],
    ),
    request(
        ApiKey::DeleteRecords,
        &[
            field(
                "topics",
                Array(&Struct(&[
                    field("name", String, ALWAYS),
                    field(
                        "partitions",
                        Array(&Struct(&[
                            field("partition_index", Fixed(4), ALWAYS),
                            field("offset", Fixed(8), ALWAYS),
                        ])),
                        ALWAYS,
                    ),
                ])),
                ALWAYS,
            ),
            field("timeout_ms", Fixed(4), ALWAYS),
        ],
    ),
    request(
        ApiKey::InitProducerId,
        &[
            field("transactional_id", String, ALWAYS).nullable(ALWAYS),
            field("transaction_timeout_ms", Fixed(4), ALWAYS),
            field("producer_id", Fixed(8), since(3)),
            field("producer_epoch", Fixed(2), since(3)),
            field("enable2_pc", Fixed(1), since(6)),
            field("keep_prepared_txn", Fixed(1), since(6)),
        ],
    ),
    request(
        ApiKey::OffsetForLeaderEpoch,
        &[
            field("replica_id", Fixed(4), since(3)),
            field(
                "topics",
                Array(&Struct(&[
                    field("topic", String, ALWAYS),
                    field(
                        "partitions",
                        Array(&Struct(&[
                            field("partition", Fixed(4), ALWAYS),
                            field("current_leader_epoch", Fixed(4), since(2)),
                            field("leader_epoch", Fixed(4), ALWAYS),
                        ])),
                        ALWAYS,
                    ),
                ])),
                ALWAYS,
            ),
        ],
    ),
    request(
        ApiKey::AddPartitionsToTxn,
        &[
            field(
                "transactions",
                Array(&Struct(&[
                    field("transactional_id", String, since(4)),
                    field("producer_id", Fixed(8), since(4)),
                    field("producer_epoch", Fixed(2), since(4)),
                    field("verify_only", Fixed(1), since(4)),
                    field(
                        "topics",
                        Array(&Struct(&[field("name", String, ALWAYS), field("partitions", Array(&Fixed(4)), ALWAYS)])),
                        since(4),
                    ),
                ])),
                since(4),
            ),
            field("v3_and_below_transactional_id", String, between(0, 3)),
            field("v3_and_below_producer_id", Fixed(8), between(0, 3)),
            field("v3_and_below_producer_epoch", Fixed(2), between(0, 3)),
            field(
                "v3_and_below_topics",
                Array(&Struct(&[field("name", String, ALWAYS), field("partitions", Array(&Fixed(4)), ALWAYS)])),
                between(0, 3),
            ),
        ],
    ),
    request(
        ApiKey::AddOffsetsToTxn,
        &[
            field("transactional_id", String, ALWAYS),
            field("producer_id", Fixed(8), ALWAYS),
            field("producer_epoch", Fixed(2), ALWAYS),
            field("group_id", String, ALWAYS),
        ],
    ),
    request(
        ApiKey::EndTxn,
        &[
            field("transactional_id", String, ALWAYS),
            field("producer_id", Fixed(8), ALWAYS),
            field("producer_epoch", Fixed(2), ALWAYS),
            field("committed", Fixed(1), ALWAYS),
        ],
    ),
    request(
        ApiKey::WriteTxnMarkers,
        &[field(
            "markers",
            Array(&Struct(&[
                field("producer_id", Fixed(8), ALWAYS),
                field("producer_epoch", Fixed(2), ALWAYS),
                field("transaction_result", Fixed(1), ALWAYS),
                field(
                    "topics",
                    Array(&Struct(&[
                        field("name", String, ALWAYS),
                        field("partition_indexes", Array(&Fixed(4)), ALWAYS),
                    ])),
                    ALWAYS,
                ),
                field("coordinator_epoch", Fixed(4), ALWAYS),
                field("transaction_version", Fixed(1), since(2)),
            ])),
            ALWAYS,
        )],
    ),
    request(
        ApiKey::TxnOffsetCommit,
        &[
            field("transactional_id", String, ALWAYS),
            field("group_id", String, ALWAYS),
            field("producer_id", Fixed(8), ALWAYS),
            field("producer_epoch", Fixed(2), ALWAYS),
            field("generation_id", Fixed(4), since(3)),
            field("member_id", String, since(3)),
            field("group_instance_id", String, since(3)).nullable(since(3)),
            field(
                "topics",
                Array(&Struct(&[
                    field("name", String, ALWAYS),
                    field(
                        "partitions",
                        Array(&Struct(&[
                            field("partition_index", Fixed(4), ALWAYS),
                            field("committed_offset", Fixed(8), ALWAYS),
                            field("committed_leader_epoch", Fixed(4), since(2)),
                            field("committed_metadata", String, ALWAYS).nullable(ALWAYS),
                        ])),
                        ALWAYS,
                    ),
                ])),
                ALWAYS,
            ),
        ],
    ),
    request(
        ApiKey::DescribeAcls,
        &[
            field("resource_type_filter", Fixed(1), ALWAYS),
            field("resource_name_filter", String, ALWAYS).nullable(ALWAYS),
            field("pattern_type_filter", Fixed(1), since(1)),
            field("principal_filter", String, ALWAYS).nullable(ALWAYS),
            field("host_filter", String, ALWAYS).nullable(ALWAYS),
            field("operation", Fixed(1), ALWAYS),
            field("permission_type", Fixed(1), ALWAYS),
        ],
    ),
    request(
        ApiKey::CreateAcls,
        &[field(
            "creations",
            Array(&Struct(&[
                field("resource_type", Fixed(1), ALWAYS),
                field("resource_name", String, ALWAYS),
                field("resource_pattern_type", Fixed(1), since(1)),
                field("principal", String, ALWAYS),
                field("host", String, ALWAYS),
                field("operation", Fixed(1), ALWAYS),
                field("permission_type", Fixed(1), ALWAYS),
            ])),
            ALWAYS,
        )],
    ),
    request(
        ApiKey::DeleteAcls,
        &[field(
            "filters",
            Array(&Struct(&[
                field("resource_type_filter", Fixed(1), ALWAYS),
                field("resource_name_filter", String, ALWAYS).nullable(ALWAYS),
                field("pattern_type_filter", Fixed(1), since(1)),
                field("principal_filter", String, ALWAYS).nullable(ALWAYS),
                field("host_filter", String, ALWAYS).nullable(ALWAYS),
                field("operation", Fixed(1), ALWAYS),
                field("permission_type", Fixed(1), ALWAYS),
            ])),
            ALWAYS,
        )],
    ),
    request(
        ApiKey::DescribeConfigs,
        &[
            field(
                "resources",
                Array(&Struct(&[
                    field("resource_type", Fixed(1), ALWAYS),
                    field("resource_name", String, ALWAYS),
                    field("configuration_keys", Array(&String), ALWAYS).nullable(ALWAYS),
                ])),
                ALWAYS,
            ),
            field("include_synonyms", Fixed(1), since(1)),
            field("include_documentation", Fixed(1), since(3)),
        ],
    ),
    request(
        ApiKey::AlterConfigs,
        &[
            field(
                "resources",
                Array(&Struct(&[
                    field("resource_type", Fixed(1), ALWAYS),
                    field("resource_name", String, ALWAYS),
                    field(
                        "configs",
                        Array(&Struct(&[
                            field("name", String, ALWAYS),
                            field("value", String, ALWAYS).nullable(ALWAYS),
                        ])),
                        ALWAYS,
                    ),
                ])),
                ALWAYS,
            ),
            field("validate_only", Fixed(1), ALWAYS),
        ],
    ),
    request(
        ApiKey::AlterReplicaLogDirs,
        &[field(
            "dirs",
            Array(&Struct(&[
                field("path", String, ALWAYS),
                field(
                    "topics",
                    Array(&Struct(&[field("name", String, ALWAYS), field("partitions", Array(&Fixed(4)), ALWAYS)])),
                    ALWAYS,
                ),
            ])),
            ALWAYS,
        )],
    ),
    request(
        ApiKey::DescribeLogDirs,
        &[field(
            "topics",
            Array(&Struct(&[field("topic", String, ALWAYS), field("partitions", Array(&Fixed(4)), ALWAYS)])),
            ALWAYS,
        )
        .nullable(ALWAYS)],
    ),
    request(ApiKey::SaslAuthenticate, &[field("auth_bytes", Bytes, ALWAYS)]),
    request(
        ApiKey::CreatePartitions,
        &[
            field(
                "topics",
                Array(&Struct(&[
                    field("name", String, ALWAYS),
                    field("count", Fixed(4), ALWAYS),
                    field("assignments", Array(&Struct(&[field("broker_ids", Array(&Fixed(4)), ALWAYS)])), ALWAYS)
                        .nullable(ALWAYS),
                ])),
                ALWAYS,
            ),
            field("timeout_ms", Fixed(4), ALWAYS),
            field("validate_only", Fixed(1), ALWAYS),
        ],
    ),
    request(
        ApiKey::CreateDelegationToken,
        &[
            field("owner_principal_type", String, since(3)).nullable(since(3)),
            field("owner_principal_name", String, since(3)).nullable(since(3)),
            field(
                "renewers",
                Array(&Struct(&[field("principal_type", String, ALWAYS), field("principal_name", String, ALWAYS)])),
                ALWAYS,
            ),
            field("max_lifetime_ms", Fixed(8), ALWAYS),
        ],
    ),
    request(ApiKey::RenewDelegationToken, &[field("hmac", Bytes, ALWAYS), field("renew_period_ms", Fixed(8), ALWAYS)]),
    request(
        ApiKey::ExpireDelegationToken,
        &[field("hmac", Bytes, ALWAYS), field("expiry_time_period_ms", Fixed(8), ALWAYS)],
    ),
    request(
        ApiKey::DescribeDelegationToken,
        &[field(
            "owners",
            Array(&Struct(&[field("principal_type", String, ALWAYS), field("principal_name", String, ALWAYS)])),
            ALWAYS,
        )
        .nullable(ALWAYS)],
    ),
    request(ApiKey::DeleteGroups, &[field("groups_names", Array(&String), ALWAYS)]),
    request(
        ApiKey::ElectLeaders,
        &[
            field("election_type", Fixed(1), since(1)),
            field(
                "topic_partitions",
                Array(&Struct(&[field("topic", String, ALWAYS), field("partitions", Array(&Fixed(4)), ALWAYS)])),
                ALWAYS,
            )
            .nullable(ALWAYS),
            field("timeout_ms", Fixed(4), ALWAYS),
        ],
    ),
    request(
        ApiKey::IncrementalAlterConfigs,
        &[
            field(
                "resources",
                Array(&Struct(&[
                    field("resource_type", Fixed(1), ALWAYS),
                    field("resource_name", String, ALWAYS),
                    field(
                        "configs",
                        Array(&Struct(&[
                            field("name", String, ALWAYS),
                            field("config_operation", Fixed(1), ALWAYS),
                            field("value", String, ALWAYS).nullable(ALWAYS),
                        ])),
                        ALWAYS,
                    ),
                ])),
                ALWAYS,
            ),
            field("validate_only", Fixed(1), ALWAYS),
        ],
    ),
    request(
        ApiKey::AlterPartitionReassignments,
        &[
            field("timeout_ms", Fixed(4), ALWAYS),
            field("allow_replication_factor_change", Fixed(1), since(1)),
            field(
                "topics",
                Array(&Struct(&[
                    field("name", String, ALWAYS),
                    field(
                        "partitions",
                        Array(&Struct(&[
                            field("partition_index", Fixed(4), ALWAYS),
                            field("replicas", Array(&Fixed(4)), ALWAYS).nullable(ALWAYS),
                        ])),
                        ALWAYS,
                    ),
                ])),
                ALWAYS,
            ),
        ],
    ),
    request(
        ApiKey::ListPartitionReassignments,
        &[
            field("timeout_ms", Fixed(4), ALWAYS),
            field(
                "topics",
                Array(&Struct(&[field("name", String, ALWAYS), field("partition_indexes", Array(&Fixed(4)), ALWAYS)])),
                ALWAYS,
            )
            .nullable(ALWAYS),
        ],
    ),
    request(
        ApiKey::OffsetDelete,
        &[
            field("group_id", String, ALWAYS),
            field(
                "topics",
                Array(&Struct(&[
                    field("name", String, ALWAYS),
                    field("partitions", Array(&Struct(&[field("partition_index", Fixed(4), ALWAYS)])), ALWAYS),
                ])),
                ALWAYS,
            ),
        ],
    ),
    request(
        ApiKey::DescribeClientQuotas,
        &[
            field(
                "components",
                Array(&Struct(&[
                    field("entity_type", String, ALWAYS),
                    field("match_type", Fixed(1), ALWAYS),
                    field("match", String, ALWAYS).nullable(ALWAYS),
                ])),
                ALWAYS,
            ),
            field("strict", Fixed(1), ALWAYS),
        ],
    ),
    request(
        ApiKey::AlterClientQuotas,
        &[
            field(
                "entries",
                Array(&Struct(&[
                    field(
                        "entity",
                        Array(&Struct(&[
                            field("entity_type", String, ALWAYS),
                            field("entity_name", String, ALWAYS).nullable(ALWAYS),
                        ])),
                        ALWAYS,
                    ),
                    field(
                        "ops",
                        Array(&Struct(&[
                            field("key", String, ALWAYS),
                            field("value", Fixed(8), ALWAYS),
                            field("remove", Fixed(1), ALWAYS),
                        ])),
                        ALWAYS,
                    ),
                ])),
                ALWAYS,
            ),
            field("validate_only", Fixed(1), ALWAYS),
        ],
    ),
    request(
        ApiKey::DescribeUserScramCredentials,
        &[field("users", Array(&Struct(&[field("name", String, ALWAYS)])), ALWAYS).nullable(ALWAYS)],
    ),
    request(
        ApiKey::AlterUserScramCredentials,
        &[
            field(
                "deletions",
                Array(&Struct(&[field("name", String, ALWAYS), field("mechanism", Fixed(1), ALWAYS)])),
                ALWAYS,
            ),
            field(
                "upsertions",
                Array(&Struct(&[
                    field("name", String, ALWAYS),
                    field("mechanism", Fixed(1), ALWAYS),
                    field("iterations", Fixed(4), ALWAYS),
                    field("salt", Bytes, ALWAYS),
                    field("salted_password", Bytes, ALWAYS),
                ])),
                ALWAYS,
            ),
        ],
    ),
    request(
        ApiKey::Vote,
        &[
            field("cluster_id", String, ALWAYS).nullable(ALWAYS),
            field("voter_id", Fixed(4), since(1)),
            field(
                "topics",
                Array(&Struct(&[
                    field("topic_name", String, ALWAYS),
                    field(
                        "partitions",
                        Array(&Struct(&[
                            field("partition_index", Fixed(4), ALWAYS),
                            field("replica_epoch", Fixed(4), ALWAYS),
                            field("replica_id", Fixed(4), ALWAYS),
                            field("replica_directory_id", Fixed(16), since(1)),
                            field("voter_directory_id", Fixed(16), since(1)),
                            field("last_offset_epoch", Fixed(4), ALWAYS),
                            field("last_offset", Fixed(8), ALWAYS),
                            field("pre_vote", Fixed(1), since(2)),
                        ])),
                        ALWAYS,
                    ),
                ])),
                ALWAYS,
            ),
        ],
    ),
    request(
        ApiKey::BeginQuorumEpoch,
        &[
            field("cluster_id", String, ALWAYS).nullable(ALWAYS),
            field("voter_id", Fixed(4), since(1)),
            field(
                "topics",
                Array(&Struct(&[
                    field("topic_name", String, ALWAYS),
                    field(
                        "partitions",
                        Array(&Struct(&[
                            field("partition_index", Fixed(4), ALWAYS),
                            field("voter_directory_id", Fixed(16), since(1)),
                            field("leader_id", Fixed(4), ALWAYS),
                            field("leader_epoch", Fixed(4), ALWAYS),
                        ])),
                        ALWAYS,
                    ),
                ])),
                ALWAYS,
            ),
            field(
                "leader_endpoints",
                Array(&Struct(&[
                    field("name", String, since(1)),
                    field("host", String, since(1)),
                    field("port", Fixed(2), since(1)),
                ])),
                since(1),
            ),
        ],
    ),
    request(
        ApiKey::EndQuorumEpoch,
        &[
            field("cluster_id", String, ALWAYS).nullable(ALWAYS),
            field(
                "topics",
                Array(&Struct(&[
                    field("topic_name", String, ALWAYS),
                    field(
                        "partitions",
                        Array(&Struct(&[
                            field("partition_index", Fixed(4), ALWAYS),
                            field("leader_id", Fixed(4), ALWAYS),
                            field("leader_epoch", Fixed(4), ALWAYS),
                            field("preferred_successors", Array(&Fixed(4)), between(0, 0)),
                            field(
                                "preferred_candidates",
                                Array(&Struct(&[
                                    field("candidate_id", Fixed(4), since(1)),
                                    field("candidate_directory_id", Fixed(16), since(1)),
                                ])),
                                since(1),
                            ),
                        ])),
                        ALWAYS,
                    ),
                ])),
                ALWAYS,
            ),
            field(
                "leader_endpoints",
                Array(&Struct(&[
                    field("name", String, since(1)),
                    field("host", String, since(1)),
                    field("port", Fixed(2), since(1)),
                ])),
                since(1),
            ),
        ],
    ),
    request(
        ApiKey::DescribeQuorum,
        &[field(
            "topics",
            Array(&Struct(&[
                field("topic_name", String, ALWAYS),
                field("partitions", Array(&Struct(&[field("partition_index", Fixed(4), ALWAYS)])), ALWAYS),
            ])),
            ALWAYS,
        )],
    ),
    request(
        ApiKey::AlterPartition,
        &[
            field("broker_id", Fixed(4), ALWAYS),
            field("broker_epoch", Fixed(8), ALWAYS),
            field(
                "topics",
                Array(&Struct(&[
                    field("topic_id", Fixed(16), since(2)),
                    field(
                        "partitions",
                        Array(&Struct(&[
                            field("partition_index", Fixed(4), ALWAYS),
                            field("leader_epoch", Fixed(4), ALWAYS),
                            field("new_isr", Array(&Fixed(4)), between(0, 2)),
                            field(
                                "new_isr_with_epochs",
                                Array(&Struct(&[
                                    field("broker_id", Fixed(4), since(3)),
                                    field("broker_epoch", Fixed(8), since(3)),
                                ])),
                                since(3),
                            ),
                            field("leader_recovery_state", Fixed(1), since(1)),
                            field("partition_epoch", Fixed(4), ALWAYS),
                        ])),
                        ALWAYS,
                    ),
                ])),
                ALWAYS,
            ),
        ],
    ),
    request(
        ApiKey::UpdateFeatures,
        &[
            field("timeout_ms", Fixed(4), ALWAYS),
            field(
                "feature_updates",
                Array(&Struct(&[
                    field("feature", String, ALWAYS),
                    field("max_version_level", Fixed(2), ALWAYS),
                    field("allow_downgrade", Fixed(1), between(0, 0)),
                    field("upgrade_type", Fixed(1), since(1)),
                ])),
                ALWAYS,
            ),
            field("validate_only", Fixed(1), since(1)),
        ],
    ),
    request(
        ApiKey::Envelope,
        &[
            field("request_data", Bytes, ALWAYS),
            field("request_principal", Bytes, ALWAYS).nullable(ALWAYS),
            field("client_host_address", Bytes, ALWAYS),
        ],
    ),
    request(
        ApiKey::FetchSnapshot,
        &[
            field("cluster_id", String, ALWAYS).nullable(ALWAYS).tagged(0, ALWAYS),
            field("replica_id", Fixed(4), ALWAYS),
            field("max_bytes", Fixed(4), ALWAYS),
            field(
                "topics",
                Array(&Struct(&[
                    field("name", String, ALWAYS),
                    field(
                        "partitions",
                        Array(&Struct(&[
                            field("partition", Fixed(4), ALWAYS),
                            field("current_leader_epoch", Fixed(4), ALWAYS),
                            field(
                                "snapshot_id",
                                Struct(&[field("end_offset", Fixed(8), ALWAYS), field("epoch", Fixed(4), ALWAYS)]),
                                ALWAYS,
                            ),
                            field("position", Fixed(8), ALWAYS),
                            field("replica_directory_id", Fixed(16), since(1)).tagged(0, since(1)),
                        ])),
                        ALWAYS,
                    ),
                ])),
                ALWAYS,
            ),
        ],
    ),
    request(
        ApiKey::DescribeCluster,
        &[
            field("include_cluster_authorized_operations", Fixed(1), ALWAYS),
            field("endpoint_type", Fixed(1), since(1)),
            field("include_fenced_brokers", Fixed(1), since(2)),
        ],
    ),
    request(
        ApiKey::DescribeProducers,
        &[field(
            "topics",
            Array(&Struct(&[field("name", String, ALWAYS), field("partition_indexes", Array(&Fixed(4)), ALWAYS)])),
            ALWAYS,
        )],
    ),
    request(
        ApiKey::BrokerRegistration,
        &[
            field("broker_id", Fixed(4), ALWAYS),
            field("cluster_id", String, ALWAYS),
            field("incarnation_id", Fixed(16), ALWAYS),
            field(
                "listeners",
                Array(&Struct(&[
                    field("name", String, ALWAYS),
                    field("host", String, ALWAYS),
                    field("port", Fixed(2), ALWAYS),
                    field("security_protocol", Fixed(2), ALWAYS),
                ])),
                ALWAYS,
            ),
            field(
                "features",
                Array(&Struct(&[
                    field("name", String, ALWAYS),
                    field("min_supported_version", Fixed(2), ALWAYS),
                    field("max_supported_version", Fixed(2), ALWAYS),
                ])),
                ALWAYS,
            ),
            field("rack", String, ALWAYS).nullable(ALWAYS),
            field("is_migrating_zk_broker", Fixed(1), since(1)),
            field("log_dirs", Array(&Fixed(16)), since(2)),
            field("previous_broker_epoch", Fixed(8), since(3)),
        ],
    ),
    request(
        ApiKey::BrokerHeartbeat,
        &[
            field("broker_id", Fixed(4), ALWAYS),
            field("broker_epoch", Fixed(8), ALWAYS),
            field("current_metadata_offset", Fixed(8), ALWAYS),
            field("want_fence", Fixed(1), ALWAYS),
            field("want_shut_down", Fixed(1), ALWAYS),
            field("offline_log_dirs", Array(&Fixed(16)), since(1)).tagged(0, since(1)),
            field("cordoned_log_dirs", Array(&Fixed(16)), since(2)).nullable(since(2)).tagged(1, since(2)),
        ],
    ),
    request(ApiKey::UnregisterBroker, &[field("broker_id", Fixed(4), ALWAYS)]),
    request(ApiKey::DescribeTransactions, &[field("transactional_ids", Array(&String), ALWAYS)]),
    request(
        ApiKey::ListTransactions,
        &[
            field("state_filters", Array(&String), ALWAYS),
            field("producer_id_filters", Array(&Fixed(8)), ALWAYS),
            field("duration_filter", Fixed(8), since(1)),
            field("transactional_id_pattern", String, since(2)).nullable(since(2)),
        ],
    ),
    request(
        ApiKey::AllocateProducerIds,
        &[field("broker_id", Fixed(4), ALWAYS), field("broker_epoch", Fixed(8), ALWAYS)],
    ),
    request(
        ApiKey::ConsumerGroupHeartbeat,
        &[
            field("group_id", String, ALWAYS),
            field("member_id", String, ALWAYS),
            field("member_epoch", Fixed(4), ALWAYS),
            field("instance_id", String, ALWAYS).nullable(ALWAYS),
            field("rack_id", String, ALWAYS).nullable(ALWAYS),
            field("rebalance_timeout_ms", Fixed(4), ALWAYS),
            field("subscribed_topic_names", Array(&String), ALWAYS).nullable(ALWAYS),
            field("subscribed_topic_regex", String, since(1)).nullable(since(1)),
            field("server_assignor", String, ALWAYS).nullable(ALWAYS),
            field(
                "topic_partitions",
                Array(&Struct(&[field("topic_id", Fixed(16), ALWAYS), field("partitions", Array(&Fixed(4)), ALWAYS)])),
                ALWAYS,
            )
            .nullable(ALWAYS),
        ],
    ),
    request(
        ApiKey::ConsumerGroupDescribe,
        &[field("group_ids", Array(&String), ALWAYS), field("include_authorized_operations", Fixed(1), ALWAYS)],
    ),
    request(
        ApiKey::ControllerRegistration,
        &[
            field("controller_id", Fixed(4), ALWAYS),
            field("incarnation_id", Fixed(16), ALWAYS),
            field("zk_migration_ready", Fixed(1), ALWAYS),
            field(
                "listeners",
                Array(&Struct(&[
                    field("name", String, ALWAYS),
                    field("host", String, ALWAYS),
                    field("port", Fixed(2), ALWAYS),
                    field("security_protocol", Fixed(2), ALWAYS),
                ])),
                ALWAYS,
            ),
            field(
                "features",
                Array(&Struct(&[
                    field("name", String, ALWAYS),
                    field("min_supported_version", Fixed(2), ALWAYS),
                    field("max_supported_version", Fixed(2), ALWAYS),
                ])),
                ALWAYS,
            ),
        ],
    ),
    request(ApiKey::GetTelemetrySubscriptions, &[field("client_instance_id", Fixed(16), ALWAYS)]),
    request(
        ApiKey::PushTelemetry,
        &[
            field("client_instance_id", Fixed(16), ALWAYS),
            field("subscription_id", Fixed(4), ALWAYS),
            field("terminating", Fixed(1), ALWAYS),
            field("compression_type", Fixed(1), ALWAYS),
            field("metrics", Bytes, ALWAYS),
        ],
    ),
    request(
        ApiKey::AssignReplicasToDirs,
        &[
            field("broker_id", Fixed(4), ALWAYS),
            field("broker_epoch", Fixed(8), ALWAYS),
            field(
                "directories",
                Array(&Struct(&[
                    field("id", Fixed(16), ALWAYS),
                    field(
                        "topics",
                        Array(&Struct(&[
                            field("topic_id", Fixed(16), ALWAYS),
                            field("partitions", Array(&Struct(&[field("partition_index", Fixed(4), ALWAYS)])), ALWAYS),
                        ])),
                        ALWAYS,
                    ),
                ])),
                ALWAYS,
            ),
        ],
    ),
    request(ApiKey::ListConfigResources, &[field("resource_types", Array(&Fixed(1)), since(1))]),
    request(
        ApiKey::DescribeTopicPartitions,
        &[
            field("topics", Array(&Struct(&[field("name", String, ALWAYS)])), ALWAYS),
            field("response_partition_limit", Fixed(4), ALWAYS),
            field(
                "cursor",
                Struct(&[field("topic_name", String, ALWAYS), field("partition_index", Fixed(4), ALWAYS)]),
                ALWAYS,
            )
            .nullable(ALWAYS),
        ],
    ),
    request(
        ApiKey::ShareGroupHeartbeat,
        &[
            field("group_id", String, ALWAYS),
            field("member_id", String, ALWAYS),
            field("member_epoch", Fixed(4), ALWAYS),
            field("rack_id", String, ALWAYS).nullable(ALWAYS),
            field("subscribed_topic_names", Array(&String), ALWAYS).nullable(ALWAYS),
        ],
    ),
    request(
        ApiKey::ShareGroupDescribe,
        &[field("group_ids", Array(&String), ALWAYS), field("include_authorized_operations", Fixed(1), ALWAYS)],
    ),
    request(
        ApiKey::ShareFetch,
        &[
            field("group_id", String, ALWAYS).nullable(ALWAYS),
            field("member_id", String, ALWAYS).nullable(ALWAYS),
            field("share_session_epoch", Fixed(4), ALWAYS),
            field("max_wait_ms", Fixed(4), ALWAYS),
            field("min_bytes", Fixed(4), ALWAYS),
            field("max_bytes", Fixed(4), ALWAYS),
            field("max_records", Fixed(4), since(1)),
            field("batch_size", Fixed(4), since(1)),
            field("share_acquire_mode", Fixed(1), since(2)),
            field("is_renew_ack", Fixed(1), since(2)),
            field(
                "topics",
                Array(&Struct(&[
                    field("topic_id", Fixed(16), ALWAYS),
                    field(
                        "partitions",
                        Array(&Struct(&[
                            field("partition_index", Fixed(4), ALWAYS),
                            field("partition_max_bytes", Fixed(4), between(0, 0)),
                            field(
                                "acknowledgement_batches",
                                Array(&Struct(&[
                                    field("first_offset", Fixed(8), ALWAYS),
                                    field("last_offset", Fixed(8), ALWAYS),
                                    field("acknowledge_types", Array(&Fixed(1)), ALWAYS),
                                ])),
                                ALWAYS,
                            ),
                        ])),
                        ALWAYS,
                    ),
                ])),
                ALWAYS,
            ),
            field(
                "forgotten_topics_data",
                Array(&Struct(&[field("topic_id", Fixed(16), ALWAYS), field("partitions", Array(&Fixed(4)), ALWAYS)])),
                ALWAYS,
            ),
        ],
    ),
    request(
        ApiKey::ShareAcknowledge,
        &[
            field("group_id", String, ALWAYS).nullable(ALWAYS),
            field("member_id", String, ALWAYS).nullable(ALWAYS),
            field("share_session_epoch", Fixed(4), ALWAYS),
            field("is_renew_ack", Fixed(1), since(2)),
            field(
                "topics",
                Array(&Struct(&[
                    field("topic_id", Fixed(16), ALWAYS),
                    field(
                        "partitions",
                        Array(&Struct(&[
                            field("partition_index", Fixed(4), ALWAYS),
                            field(
                                "acknowledgement_batches",
                                Array(&Struct(&[
                                    field("first_offset", Fixed(8), ALWAYS),
                                    field("last_offset", Fixed(8), ALWAYS),
                                    field("acknowledge_types", Array(&Fixed(1)), ALWAYS),
                                ])),
                                ALWAYS,
                            ),
                        ])),
                        ALWAYS,
                    ),
                ])),
                ALWAYS,
            ),
        ],
    ),
    request(
        ApiKey::AddRaftVoter,
        &[
            field("cluster_id", String, ALWAYS).nullable(ALWAYS),
            field("timeout_ms", Fixed(4), ALWAYS),
            field("voter_id", Fixed(4), ALWAYS),
            field("voter_directory_id", Fixed(16), ALWAYS),
            field(
                "listeners",
                Array(&Struct(&[
                    field("name", String, ALWAYS),
                    field("host", String, ALWAYS),
                    field("port", Fixed(2), ALWAYS),
                ])),
                ALWAYS,
            ),
            field("ack_when_committed", Fixed(1), since(1)),
        ],
    ),
    request(
        ApiKey::RemoveRaftVoter,
        &[
            field("cluster_id", String, ALWAYS).nullable(ALWAYS),
            field("voter_id", Fixed(4), ALWAYS),
            field("voter_directory_id", Fixed(16), ALWAYS),
        ],
    ),
    request(
        ApiKey::UpdateRaftVoter,
        &[
            field("cluster_id", String, ALWAYS).nullable(ALWAYS),
            field("current_leader_epoch", Fixed(4), ALWAYS),
            field("voter_id", Fixed(4), ALWAYS),
            field("voter_directory_id", Fixed(16), ALWAYS),
            field(
                "listeners",
                Array(&Struct(&[
                    field("name", String, ALWAYS),
                    field("host", String, ALWAYS),
                    field("port", Fixed(2), ALWAYS),
                ])),
                ALWAYS,
            ),
            field(
                "kraft_version_feature",
                Struct(&[
                    field("min_supported_version", Fixed(2), ALWAYS),
                    field("max_supported_version", Fixed(2), ALWAYS),
                ]),
                ALWAYS,
            ),
        ],
    ),
    request(
        ApiKey::InitializeShareGroupState,
        &[
            field("group_id", String, ALWAYS),
            field(
                "topics",
                Array(&Struct(&[
                    field("topic_id", Fixed(16), ALWAYS),
                    field(
                        "partitions",
                        Array(&Struct(&[
                            field("partition", Fixed(4), ALWAYS),
                            field("state_epoch", Fixed(4), ALWAYS),
                            field("start_offset", Fixed(8), ALWAYS),
                        ])),
                        ALWAYS,
                    ),
                ])),
                ALWAYS,
            ),
        ],
    ),
    request(
        ApiKey::ReadShareGroupState,
        &[
            field("group_id", String, ALWAYS),
            field(
                "topics",
                Array(&Struct(&[
                    field("topic_id", Fixed(16), ALWAYS),
                    field(
                        "partitions",
                        Array(&Struct(&[
                            field("partition", Fixed(4), ALWAYS),
                            field("leader_epoch", Fixed(4), ALWAYS),
                        ])),
                        ALWAYS,
                    ),
                ])),
                ALWAYS,
            ),
        ],
    ),
    request(
        ApiKey::WriteShareGroupState,
        &[
            field("group_id", String, ALWAYS),
            field(
                "topics",
                Array(&Struct(&[
                    field("topic_id", Fixed(16), ALWAYS),
                    field(
                        "partitions",
                        Array(&Struct(&[
                            field("partition", Fixed(4), ALWAYS),
                            field("state_epoch", Fixed(4), ALWAYS),
                            field("leader_epoch", Fixed(4), ALWAYS),
                            field("start_offset", Fixed(8), ALWAYS),
                            field("delivery_complete_count", Fixed(4), since(1)),
                            field(
                                "state_batches",
                                Array(&Struct(&[
                                    field("first_offset", Fixed(8), ALWAYS),
                                    field("last_offset", Fixed(8), ALWAYS),
                                    field("delivery_state", Fixed(1), ALWAYS),
                                    field("delivery_count", Fixed(2), ALWAYS),
                                ])),
                                ALWAYS,
                            ),
                        ])),
                        ALWAYS,
                    ),
                ])),
                ALWAYS,
            ),
        ],
    ),
    request(
        ApiKey::DeleteShareGroupState,
        &[
            field("group_id", String, ALWAYS),
            field(
                "topics",
                Array(&Struct(&[
                    field("topic_id", Fixed(16), ALWAYS),
                    field("partitions", Array(&Struct(&[field("partition", Fixed(4), ALWAYS)])), ALWAYS),
                ])),
                ALWAYS,
            ),
        ],
    ),
    request(
        ApiKey::ReadShareGroupStateSummary,
        &[
            field("group_id", String, ALWAYS),
            field(
                "topics",
                Array(&Struct(&[
                    field("topic_id", Fixed(16), ALWAYS),
                    field(
                        "partitions",
                        Array(&Struct(&[
                            field("partition", Fixed(4), ALWAYS),
                            field("leader_epoch", Fixed(4), ALWAYS),
                        ])),
                        ALWAYS,
                    ),
                ])),
                ALWAYS,
            ),
        ],
    ),
    request(
        ApiKey::StreamsGroupHeartbeat,
        &[
            field("group_id", String, ALWAYS),
            field("member_id", String, ALWAYS),
            field("member_epoch", Fixed(4), ALWAYS),
            field("endpoint_information_epoch", Fixed(4), ALWAYS),
            field("instance_id", String, ALWAYS).nullable(ALWAYS),
            field("rack_id", String, ALWAYS).nullable(ALWAYS),
            field("rebalance_timeout_ms", Fixed(4), ALWAYS),
            field(
                "topology",
                Struct(&[
                    field("epoch", Fixed(4), ALWAYS),
                    field(
                        "subtopologies",
                        Array(&Struct(&[
                            field("subtopology_id", String, ALWAYS),
                            field("source_topics", Array(&String), ALWAYS),
                            field("source_topic_regex", Array(&String), ALWAYS),
                            field(
                                "state_changelog_topics",
                                Array(&Struct(&[
                                    field("name", String, ALWAYS),
                                    field("partitions", Fixed(4), ALWAYS),
                                    field("replication_factor", Fixed(2), ALWAYS),
                                    field(
                                        "topic_configs",
                                        Array(&Struct(&[field("key", String, ALWAYS), field("value", String, ALWAYS)])),
                                        ALWAYS,
                                    ),
                                ])),
                                ALWAYS,
                            ),
                            field("repartition_sink_topics", Array(&String), ALWAYS),
                            field(
                                "repartition_source_topics",
                                Array(&Struct(&[
                                    field("name", String, ALWAYS),
                                    field("partitions", Fixed(4), ALWAYS),
                                    field("replication_factor", Fixed(2), ALWAYS),
                                    field(
                                        "topic_configs",
                                        Array(&Struct(&[field("key", String, ALWAYS), field("value", String, ALWAYS)])),
                                        ALWAYS,
                                    ),
                                ])),
                                ALWAYS,
                            ),
                            field(
                                "copartition_groups",
                                Array(&Struct(&[
                                    field("source_topics", Array(&Fixed(2)), ALWAYS),
                                    field("source_topic_regex", Array(&Fixed(2)), ALWAYS),
                                    field("repartition_source_topics", Array(&Fixed(2)), ALWAYS),
                                ])),
                                ALWAYS,
                            ),
                        ])),
                        ALWAYS,
                    ),
                ]),
                ALWAYS,
            )
            .nullable(ALWAYS),
            field(
                "active_tasks",
                Array(&Struct(&[
                    field("subtopology_id", String, ALWAYS),
                    field("partitions", Array(&Fixed(4)), ALWAYS),
                ])),
                ALWAYS,
            )
            .nullable(ALWAYS),
            field(
                "standby_tasks",
                Array(&Struct(&[
                    field("subtopology_id", String, ALWAYS),
                    field("partitions", Array(&Fixed(4)), ALWAYS),
                ])),
                ALWAYS,
            )
            .nullable(ALWAYS),
            field(
                "warmup_tasks",
                Array(&Struct(&[
                    field("subtopology_id", String, ALWAYS),
                    field("partitions", Array(&Fixed(4)), ALWAYS),
                ])),
                ALWAYS,
            )
            .nullable(ALWAYS),
            field("process_id", String, ALWAYS).nullable(ALWAYS),
            field("user_endpoint", Struct(&[field("host", String, ALWAYS), field("port", Fixed(2), ALWAYS)]), ALWAYS)
                .nullable(ALWAYS),
            field(
                "client_tags",
                Array(&Struct(&[field("key", String, ALWAYS), field("value", String, ALWAYS)])),
                ALWAYS,
            )
            .nullable(ALWAYS),
            field(
                "task_offsets",
                Array(&Struct(&[
                    field("subtopology_id", String, ALWAYS),
                    field("partition", Fixed(4), ALWAYS),
                    field("offset", Fixed(8), ALWAYS),
                ])),
                ALWAYS,
            )
            .nullable(ALWAYS),
            field(
                "task_end_offsets",
                Array(&Struct(&[
                    field("subtopology_id", String, ALWAYS),
                    field("partition", Fixed(4), ALWAYS),
                    field("offset", Fixed(8), ALWAYS),
                ])),
                ALWAYS,
            )
            .nullable(ALWAYS),
            field("shutdown_application", Fixed(1), ALWAYS),
        ],
    ),
    request(
        ApiKey::StreamsGroupDescribe,
        &[field("group_ids", Array(&String), ALWAYS), field("include_authorized_operations", Fixed(1), ALWAYS)],
    ),
    request(
        ApiKey::DescribeShareGroupOffsets,
        &[field(
            "groups",
            Array(&Struct(&[
                field("group_id", String, ALWAYS),
                field(
                    "topics",
                    Array(&Struct(&[
                        field("topic_name", String, ALWAYS),
                        field("partitions", Array(&Fixed(4)), ALWAYS),
                    ])),
                    ALWAYS,
                )
                .nullable(ALWAYS),
            ])),
            ALWAYS,
        )],
    ),
    request(
        ApiKey::AlterShareGroupOffsets,
        &[
            field("group_id", String, ALWAYS),
            field(
                "topics",
                Array(&Struct(&[
                    field("topic_name", String, ALWAYS),
                    field(
                        "partitions",
                        Array(&Struct(&[
                            field("partition_index", Fixed(4), ALWAYS),
                            field("start_offset", Fixed(8), ALWAYS),
                        ])),
                        ALWAYS,
                    ),
                ])),
                ALWAYS,
            ),
        ],
    ),
    request(
        ApiKey::DeleteShareGroupOffsets,
        &[
            field("group_id", String, ALWAYS),
            field("topics", Array(&Struct(&[field("topic_name", String, ALWAYS)])), ALWAYS),
        ],
    ),
];
