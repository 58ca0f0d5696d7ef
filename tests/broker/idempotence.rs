//! Idempotent producers (KIP-98): a batch that is sent again is stored once, one that is missing is missed; across restarts.

use std::collections::BTreeSet;

use ottla::protocol::ErrorCode;

use crate::broker::Broker;
use crate::client::{Client, error};
use crate::records::{batch, idempotent};

/// What a producer is told of a batch of two records.
async fn send(client: &mut Client, producer_id: i64, base_sequence: i32) -> (ErrorCode, i64) {
    let values = [base_sequence.to_string(), (base_sequence + 1).to_string()];
    let answer = client.produce("t", 0, -1, idempotent(producer_id, base_sequence, &values)).await;
    (error(answer.error_code), answer.base_offset)
}

/// That of the batches at sequences 0, 2, … 10, each at the offset 3 more than that, the broker knows those from
/// `remembered` on, and that the next one is that at 12.
async fn assert_remembered(client: &mut Client, producer_id: i64, remembered: i32) {
    for sequence in (0..12).step_by(2) {
        let expected = match sequence < remembered {
            true => (ErrorCode::OutOfOrderSequenceNumber, -1),
            false => (ErrorCode::None, i64::from(sequence) + 3),
        };
        assert_eq!(send(client, producer_id, sequence).await, expected, "{sequence}");
    }
    for (sequence, what) in [(14, "a gap"), (11, "an overlap")] {
        let (code, offset) = send(client, producer_id, sequence).await;
        assert_eq!((code, offset), (ErrorCode::OutOfOrderSequenceNumber, -1), "{what}");
    }
    assert_eq!(client.latest("t", 0).await, 15);
}

#[tokio::test(flavor = "multi_thread")]
async fn duplicates_and_gaps_are_known_after_a_restart_and_a_kill() {
    let broker = Broker::start(&[]).await;
    let mut client = broker.client().await;
    client.create_topic("t", 1, &[]).await;
    let producer_id = client.producer_id().await;
    client.produced("t", 0, 1, batch(&["someone", "else", "first"])).await;
    for sequence in [0, 2, 4, 6, 8, 10] {
        assert_eq!(send(&mut client, producer_id, sequence).await, (ErrorCode::None, i64::from(sequence) + 3));
    }
    // The last five.
    assert_remembered(&mut client, producer_id, 2).await;

    // From the records themselves.
    let survivor = broker.survivor().await;
    let mut client = survivor.client().await;
    assert_remembered(&mut client, producer_id, 2).await;
    assert_eq!(send(&mut client, producer_id, 12).await, (ErrorCode::None, 15));
    survivor.shut_down().await;

    // From the snapshot, which knows the last one.
    let broker = broker.restart().await;
    let mut client = broker.client().await;
    assert_remembered(&mut client, producer_id, 10).await;
    assert_eq!(send(&mut client, producer_id, 12).await, (ErrorCode::None, 15));
    let found: Vec<String> = client.read_from("t", 0, 3).await.into_iter().map(|(_, value)| value).collect();
    assert_eq!(found, (0..14).map(|n| n.to_string()).collect::<Vec<_>>());
    broker.shut_down().await;
}

/// Every request is sent again on another connection at once: each is stored once, and both are told where.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_comes_twice_at_the_same_time_is_stored_once() {
    let broker = Broker::start(&[]).await;
    let mut first = broker.client().await;
    let mut second = broker.client().await;
    first.create_topic("t", 1, &[("flush.messages", "1")]).await;
    let producer_id = first.producer_id().await;
    for sequence in (0..60).step_by(2) {
        let (one, other) =
            tokio::join!(send(&mut first, producer_id, sequence), send(&mut second, producer_id, sequence));
        assert_eq!((one, other), ((ErrorCode::None, i64::from(sequence)), one));
    }
    assert_eq!(first.latest("t", 0).await, 60);
    broker.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_producer_id_is_given_twice() {
    let mut given = BTreeSet::new();
    let mut broker = Broker::start(&[]).await;
    for _ in 0..3 {
        // The remains of each kill are left behind, having given out ids that nobody here knows of: as after a real one,
        // nothing of its block may come back.
        let survivor = broker.survivor().await;
        let (mut client, mut other) = (broker.client().await, broker.client().await);
        for _ in 0..5 {
            assert!(given.insert(client.producer_id().await) && given.insert(other.producer_id().await));
        }
        broker.shut_down().await;
        broker = survivor;
        let mut client = broker.client().await;
        client.producer_id().await;
        broker = broker.restart().await;
    }
    broker.shut_down().await;
}
