//! What only a cluster of several, an older one, or one with settings of its own can show; the rest was recorded from
//! Kafka, see `update_features.py` of the differential.

use std::sync::Arc;

use kafka_protocol::messages::update_features_request::FeatureUpdateKey;

use super::*;
use crate::config::BrokerConfig;
use crate::controller::features::bootstrap_records;
use crate::metadata::image::MetadataDelta;
use crate::metadata::records::{BrokerFeature, ControllerFeature, RegisterBrokerRecord, RegisterControllerRecord};
use crate::types::BrokerId;

fn settings() -> ControllerSettings {
    ControllerSettings::new("cluster".to_owned(), Arc::new(BrokerConfig::default()))
}

fn apply(image: &mut MetadataImage, record: VersionedRecord) {
    image.apply(&record.record, &mut MetadataDelta::default()).unwrap();
}

/// A cluster with these levels.
fn cluster(levels: &[(&str, i16)]) -> MetadataImage {
    let mut image = MetadataImage::empty();
    for record in bootstrap_records() {
        apply(&mut image, record);
    }
    for (name, feature_level) in levels {
        let record = FeatureLevelRecord { name: (*name).to_owned(), feature_level: *feature_level };
        apply(&mut image, VersionedRecord::lowest(record));
    }
    image
}

fn request(updates: &[(&'static str, i16, i8)]) -> UpdateFeaturesRequest {
    let updates = updates.iter().map(|(name, level, upgrade_type)| {
        FeatureUpdateKey::default()
            .with_feature((*name).into())
            .with_max_version_level(*level)
            .with_upgrade_type(*upgrade_type)
    });
    UpdateFeaturesRequest::default().with_feature_updates(updates.collect())
}

/// The records that a request brings about, or the reason why none.
fn outcome(image: &MetadataImage, updates: &[(&'static str, i16, i8)]) -> Result<Vec<String>, String> {
    let decided = update_features(image, &settings(), &request(updates), 2);
    let response = decided.decision.response;
    match response.error_code {
        0 => Ok(decided.decision.records.iter().map(|record| format!("{:?}", record.record)).collect()),
        code => {
            assert_eq!(code, ErrorCode::InvalidUpdateVersion.code());
            assert!(decided.decision.records.is_empty());
            let message = response.error_message.unwrap().to_string();
            Err(message.split_once(" had an error: ").unwrap().1.to_owned())
        }
    }
}

#[test]
fn all_brokers_must_know_a_level() {
    let mut image = cluster(&[]);
    let known =
        |name: &str, max| BrokerFeature { name: name.to_owned(), min_supported_version: 0, max_supported_version: max };
    for (id, features) in
        [(1, vec![known("share.version", 1), known("group.version", 1)]), (2, vec![known("share.version", 0)])]
    {
        let record = RegisterBrokerRecord { broker_id: BrokerId(id), features, ..RegisterBrokerRecord::default() };
        apply(&mut image, VersionedRecord::lowest(record));
    }
    assert_eq!(
        outcome(&image, &[("share.version", 1, 1)]).unwrap_err(),
        "Invalid update version 1 for feature share.version. Broker 2 does not support this feature."
    );
    assert_eq!(outcome(&image, &[("share.version", 0, 2)]).unwrap().len(), 1);
    let no_word = "Invalid update version 1 for feature group.version. Broker 2 does not support this feature.";
    assert_eq!(outcome(&image, &[("group.version", 1, 1)]).unwrap_err(), no_word);
}

#[test]
fn other_controllers_must_know_a_level_once_they_register() {
    let mut image = cluster(&[]);
    let feature = |min, max| ControllerFeature {
        name: "share.version".to_owned(),
        min_supported_version: min,
        max_supported_version: max,
    };
    let controller = |id, feature| RegisterControllerRecord {
        controller_id: BrokerId(id),
        features: vec![feature],
        ..RegisterControllerRecord::default()
    };
    // What this node said of itself some time ago does not matter.
    let node_id = settings().node_id().0;
    apply(&mut image, VersionedRecord::lowest(controller(node_id, feature(0, 0))));
    assert!(outcome(&image, &[("share.version", 1, 1)]).is_ok());
    apply(&mut image, VersionedRecord::lowest(controller(node_id + 1, feature(2, 3))));
    let refused = outcome(&image, &[("share.version", 1, 1)]).unwrap_err();
    assert!(refused.ends_with(&format!("Controller {} only supports versions 2-3", node_id + 1)), "{refused}");
    let before_they_register = FeatureLevelRecord { name: "metadata.version".to_owned(), feature_level: 14 };
    apply(&mut image, VersionedRecord::lowest(before_they_register));
    assert!(outcome(&image, &[("share.version", 1, 1)]).is_ok());
}

#[test]
fn metadata_sinks_only_where_nothing_is_lost() {
    let image = cluster(&[("metadata.version", 22)]);
    for level in 17..22 {
        assert_eq!(outcome(&image, &[("metadata.version", level, 2)]).unwrap().len(), 1, "{level}");
    }
    let refused = outcome(&image, &[("metadata.version", 16, 2)]).unwrap_err();
    assert_eq!(
        refused,
        "Unsupported metadata.version downgrade from 22 to 16. Refusing to perform the requested downgrade because it \
         might delete metadata information."
    );
    assert!(
        outcome(&image, &[("metadata.version", 16, 3)]).unwrap_err().ends_with("is not supported in this version.")
    );
    assert_eq!(outcome(&image, &[("metadata.version", 30, 1)]).unwrap().len(), 1);
}

#[test]
fn what_a_level_needs_may_come_with_it() {
    let image = cluster(&[("metadata.version", 22), ("eligible.leader.replicas.version", 0)]);
    let elr = ("eligible.leader.replicas.version", 1, 1);
    assert_eq!(
        outcome(&image, &[elr]).unwrap_err(),
        "Invalid update version 1 for feature eligible.leader.replicas.version. eligible.leader.replicas.version could \
         not be set to 1 because it depends on metadata.version level 23"
    );
    let records = outcome(&image, &[elr, ("metadata.version", 23, 1)]).unwrap();
    // With the setting that the cluster then must have.
    assert_eq!(records.len(), 3, "{records:?}");
    assert!(records[0].contains("min.insync.replicas"), "{records:?}");
}

#[test]
fn eligible_leader_replicas_take_the_brokers_settings_away() {
    let mut image = cluster(&[("eligible.leader.replicas.version", 0)]);
    for (broker, value) in [("7", "2"), ("", "3"), ("8", "1")] {
        let record = ConfigRecord {
            resource_type: ConfigResourceType::BROKER.0,
            resource_name: broker.to_owned(),
            name: "min.insync.replicas".to_owned(),
            value: Some(value.to_owned()),
        };
        apply(&mut image, VersionedRecord::lowest(record));
    }
    let records = outcome(&image, &[("eligible.leader.replicas.version", 1, 1)]).unwrap();
    // The cluster's own stays.
    assert_eq!(records.len(), 3, "{records:?}");
    for (record, broker) in records.iter().zip(["\"7\"", "\"8\""]) {
        assert!(record.contains(broker) && record.contains("value: None"), "{record}");
    }
}

#[test]
fn voters_are_recorded_once() {
    let mut image = cluster(&[]);
    let decide = |image: &MetadataImage, validate_only| {
        let request = request(&[("kraft.version", 1, 1)]).with_validate_only(validate_only);
        let decided = update_features(image, &settings(), &request, 2);
        (decided.kraft_version, decided.decision.records.len())
    };
    assert_eq!(decide(&image, true), (None, 0));
    assert_eq!(decide(&image, false), (Some(1), 1));
    Arc::make_mut(&mut image.features).kraft_version = 1;
    assert_eq!(decide(&image, false), (None, 1));
}
