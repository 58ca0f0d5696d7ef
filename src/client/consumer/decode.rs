//! Records out of what a fetch has brought.

use std::collections::BTreeSet;

use super::Consumed;
use crate::client::error::{Error, Result};
use crate::record::batch::batches;
use crate::record::control::ControlRecordType;
use crate::record::record::RecordStream;

/// What comes out of one batch, at most: more than any broker takes in.
const LARGEST_BATCH: u64 = i32::MAX as u64;

/// A transaction that was aborted: its producer, and the offset it begins at.
pub type Aborted = (i64, i64);

/// What a partition has given.
#[derive(Debug, Default)]
pub struct Decoded {
    pub records: Vec<Consumed>,
    /// Where the next fetch begins; `None` if there was no whole batch.
    pub next_offset: Option<i64>,
}

/// Takes the records at `from` and above. Control records are nobody's, and those of the transactions in `aborted` are left out.
pub fn decode(
    topic: &str,
    partition: i32,
    bytes: &[u8],
    from: i64,
    mut aborted: Vec<Aborted>,
    check_crcs: bool,
) -> Result<Decoded> {
    let broken = |reason: String| {
        Error::new(
            "org.apache.kafka.common.KafkaException",
            format!(
                "Received exception when fetching the next record from {topic}-{partition}. {reason} If needed, please seek past the record to continue consumption."
            ),
        )
    };
    aborted.sort_by_key(|(_, first_offset)| std::cmp::Reverse(*first_offset));
    let mut within = BTreeSet::new();
    let mut decoded = Decoded::default();
    for batch in batches(bytes) {
        let batch = batch.map_err(|error| broken(format!("{error}.")))?;
        if check_crcs && !batch.is_crc_valid() {
            return Err(broken(format!("Record batch at offset {} is corrupt.", batch.base_offset().0)));
        }
        let last = batch.last_offset().0;
        decoded.next_offset = Some(last + 1);
        let producer = batch.producer_id().0;
        while let Some(&(producer, first)) = aborted.last()
            && first <= last
        {
            within.insert(producer);
            aborted.pop();
        }
        let codec = batch.codec().map_err(|error| broken(format!("{error}.")))?;
        let header = batch.to_header();
        let mut stream = RecordStream::new(&header, codec, batch.body(), LARGEST_BATCH)
            .map_err(|error| broken(format!("{error}.")))?;
        let mut buffer = Vec::new();
        if batch.is_control() {
            // The end of a transaction: what its producer writes from here on belongs to the next one.
            if let Ok(Some(record)) = stream.next_record(&mut buffer)
                && let Some(key) = record.key
                && let Ok(ControlRecordType::Abort) = ControlRecordType::parse(key)
            {
                within.remove(&producer);
            }
            continue;
        }
        if batch.is_transactional() && within.contains(&producer) {
            continue;
        }
        let kind = batch.timestamp_type();
        while let Some(record) = stream.next_record(&mut buffer).map_err(|error| broken(format!("{error}.")))? {
            if record.offset.0 < from {
                continue;
            }
            let headers = record
                .headers
                .iter()
                .map(|header| (String::from_utf8_lossy(header.key).into_owned(), header.value.map(<[u8]>::to_vec)));
            decoded.records.push(Consumed {
                topic: topic.into(),
                partition,
                offset: record.offset.0,
                timestamp: (kind, record.timestamp),
                key: record.key.map(<[u8]>::to_vec),
                value: record.value.map(<[u8]>::to_vec),
                headers: headers.collect(),
            });
        }
    }
    Ok(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::builder::RecordBatchBuilder;
    use crate::record::compression::Codec;
    use crate::record::control::{ControlRecord, EndTxnMarker};
    use crate::types::{Offset, ProducerEpoch, ProducerId};

    fn batch(base: i64, producer: i64, transactional: bool, values: &[&str]) -> Vec<u8> {
        let mut builder = RecordBatchBuilder::new(Offset(base))
            .compression(Codec::Lz4, 9)
            .producer(ProducerId(producer), ProducerEpoch(0), 0)
            .transactional(transactional);
        for value in values {
            builder.append(1000, None, Some(value.as_bytes()), &[]);
        }
        builder.build().to_vec()
    }

    fn end(base: i64, producer: i64, committed: bool) -> Vec<u8> {
        let mut builder = RecordBatchBuilder::new(Offset(base))
            .producer(ProducerId(producer), ProducerEpoch(0), 0)
            .transactional(true)
            .control(true);
        builder.append_control(1000, &ControlRecord::EndTxn(EndTxnMarker { committed, coordinator_epoch: 0 }));
        builder.build().to_vec()
    }

    fn read(bytes: &[u8], from: i64, aborted: &[Aborted]) -> (Vec<String>, Option<i64>) {
        let decoded = decode("t", 0, bytes, from, aborted.to_vec(), true).unwrap();
        let value = |record: Consumed| String::from_utf8(record.value.unwrap()).unwrap();
        (decoded.records.into_iter().map(value).collect(), decoded.next_offset)
    }

    #[test]
    fn records_from_an_offset_on() {
        let bytes = [batch(5, -1, false, &["a", "b"]), batch(7, -1, false, &["c"])].concat();
        assert_eq!(read(&bytes, 6, &[]), (vec!["b".to_owned(), "c".to_owned()], Some(8)));
        assert_eq!(read(&bytes[..bytes.len() - 1], 0, &[]).1, Some(7), "half a batch is none");
        assert_eq!(read(&[], 0, &[]), (vec![], None));
    }

    #[test]
    fn aborted_transactions_are_left_out() {
        let bytes = [
            batch(0, 1, true, &["a"]),
            batch(1, 2, true, &["b"]),
            end(2, 1, false),
            batch(3, 1, true, &["c"]),
            end(4, 1, true),
            end(5, 2, true),
        ]
        .concat();
        assert_eq!(read(&bytes, 0, &[(1, 0)]), (vec!["b".to_owned(), "c".to_owned()], Some(6)));
        assert_eq!(read(&bytes, 0, &[]).0.len(), 3);
    }

    #[test]
    fn damage_is_told() {
        let mut bytes = batch(0, -1, false, &["a"]);
        *bytes.last_mut().unwrap() ^= 1;
        assert!(
            decode("t", 0, &bytes, 0, Vec::new(), true)
                .unwrap_err()
                .message()
                .contains("from t-0. Record batch at offset 0 is corrupt")
        );
    }
}
