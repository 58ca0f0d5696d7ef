//! Kafka's own directories, sound and damaged: what is opened must be what Kafka opens, or better.

use super::*;
use crate::storage::fixture::{Expected, Fixture, context, expected, found};

fn check_all(name: &str, damage: DamagePolicy, better: impl Fn(&str, &Expected) -> Option<Expected>) {
    let fixture = Fixture::unpack(name);
    for (dir, kafkas) in expected(name) {
        if !fixture.data().join(&dir).exists() {
            continue;
        }
        let context = context();
        let wanted = better(&dir, &kafkas).unwrap_or(kafkas);
        let (log, report) = fixture.open(&context, &wanted.partition, damage);
        assert_eq!(found(&log), wanted, "{dir}: {report:#?}");
        // And once more, after a close in order.
        log.close().unwrap();
        let (log, report) = reopen(&fixture, &log);
        assert_eq!(found(&log), wanted, "{dir} again: {report:#?}");
        assert_eq!(report.repairs, [], "{dir} again");
    }
}

/// Opens a log again that was closed.
fn reopen(fixture: &Fixture, log: &Log) -> (Arc<Log>, RecoveryReport) {
    let params = LogParams {
        dir: log.dir(),
        topic_partition: log.topic_partition().clone(),
        config: log.config(),
        log_start_offset: log.log_start_offset(),
        recovery_point: log.recovery_point(),
        clean_shutdown: true,
        damage: DamagePolicy::KeepReadable,
        producers: Default::default(),
        progress: None,
        on_failure: None,
    };
    assert!(params.dir.starts_with(fixture.data()));
    Log::open(&context(), params).unwrap()
}

#[test]
fn sound_directories_open_as_in_kafka() {
    for name in ["plain", "deleted-records", "transactions"] {
        check_all(name, DamagePolicy::KeepReadable, |_, _| None);
    }
}

#[test]
fn a_killed_broker_s_directory_opens_as_in_kafka() {
    for damage in [DamagePolicy::KeepReadable, DamagePolicy::CutOff] {
        check_all("unclean", damage, |_, _| None);
    }
}
