//! Kafka's own directories: the dump must be, to the byte, what Kafka's tool printed of them.

use std::fs;

use clap::Parser as _;

use super::*;
use crate::cli::{Arguments, Tool};
use crate::storage::fixture::Fixture;

/// What the tool prints and returns for arguments behind `dump-log`.
fn dumped(arguments: &[&str]) -> (u8, String, String) {
    let arguments = Arguments::try_parse_from([&["ottla", "dump-log"], arguments].concat()).unwrap();
    let Some(Tool::DumpLog(arguments)) = arguments.tool else { panic!("another tool") };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = dump(&Request::of_arguments(&arguments).unwrap(), &mut out, &mut err);
    (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

fn decoder(path: &str) -> Option<&'static str> {
    match path.split('/').next()?.rsplit_once('-')?.0 {
        "__consumer_offsets" => Some("--offsets-decoder"),
        "__transaction_state" => Some("--transaction-log-decoder"),
        "__share_group_state" => Some("--share-group-state-decoder"),
        "__cluster_metadata" => Some("--cluster-metadata-decoder"),
        _ => None,
    }
}

/// The findings at the end of a dump, one for each file, sorted: Kafka has no order for them.
fn findings(text: &str) -> Vec<String> {
    let mut blocks: Vec<String> = Vec::new();
    for line in text.lines() {
        match blocks.last_mut() {
            Some(block) if line.starts_with("  ") => *block += &format!("\n{line}"),
            _ => blocks.push(line.to_owned()),
        }
    }
    blocks.sort();
    blocks
}

fn check_fixture(name: &str) {
    let fixture = Fixture::unpack(name);
    let prefix = format!("{}/", fixture.data().display());
    let golden = format!("{}/tests/golden/fixtures/{name}.dump.zst", env!("CARGO_MANIFEST_DIR"));
    let text = zstd::decode_all(fs::File::open(golden).unwrap()).unwrap();
    let text = String::from_utf8(text).unwrap();
    let (mut kafkas_findings, mut our_findings) = (String::new(), String::new());
    for section in text.split_terminator("Dumping ").skip(1) {
        let path = section.lines().next().unwrap();
        // What Kafka wrote to standard error stands behind the last file of a kind.
        let marks = ["[exit 0] ", "[exit 1] ", "\nFound timestamp", "\nNon-consecutive", "\nMismatches in"];
        let end = marks.iter().filter_map(|text| section.find(text)).min().unwrap_or(section.len());
        let (data, found) = section.split_at(end);
        let kafka_gave_up = found.starts_with("[exit 1]");
        for line in found.lines().map(|line| line.strip_prefix(marks[0]).unwrap_or(line)) {
            // That of Java about Kafka's code.
            if !line.is_empty() && !line.starts_with("WARNING: ") && !kafka_gave_up {
                kafkas_findings += &format!("{line}\n");
            }
        }

        let full = format!("{prefix}{path}");
        let mut arguments = vec!["--deep-iteration", "--print-data-log", "--files", &full];
        arguments.extend(decoder(path));
        let (code, out, err) = dumped(&arguments);
        assert_eq!(code, 0, "{path}: {err}");
        let out = out.replace(&prefix, "");
        let out = out.strip_prefix("Dumping ").unwrap();
        for (ours, kafkas) in out.lines().zip(data.lines()) {
            assert_eq!(ours, kafkas, "{name} {path}");
        }
        if kafka_gave_up {
            // At an index full of zeros beside an empty log.
            assert_eq!(out, format!("{path}\n{path} is empty.\n"));
            continue;
        }
        assert_eq!(out.lines().count(), data.trim_end().lines().count(), "{name} {path}");
        our_findings += &err.replace(&prefix, "");
    }
    assert_eq!(findings(&our_findings), findings(&kafkas_findings), "{name}");
}

#[test]
fn prints_what_kafka_prints() {
    for name in ["plain", "transactions", "compacted-twice", "deleted-records", "unclean"] {
        check_fixture(name);
    }
}

#[test]
fn prints_what_kafka_prints_of_coordinators() {
    for name in ["groups", "share"] {
        check_fixture(name);
    }
}

#[test]
fn prints_what_kafka_prints_of_metadata() {
    for name in ["metadata", "metadata-dynamic", "formatted"] {
        check_fixture(name);
    }
}

/// A log of two batches, as a file.
fn plain_log() -> (Fixture, String) {
    let fixture = Fixture::unpack_only("plain", "plain-0");
    let path = fixture.data().join("plain-0/00000000000000000000.log");
    let text = path.to_str().unwrap().to_owned();
    (fixture, text)
}

#[test]
fn shows_as_much_as_is_asked_for() {
    let (_fixture, path) = plain_log();
    let (_, shallow, err) = dumped(&["--files", &path]);
    assert_eq!(err, "");
    assert!(shallow.lines().skip(2).all(|line| line.starts_with("baseOffset: ")), "{shallow}");
    let (_, first, _) = dumped(&["--max-bytes", "5000", "--files", &path]);
    assert!(shallow.starts_with(&first) && first.len() < shallow.len());
    let (_, deep, _) = dumped(&["--deep-iteration", "--files", &path]);
    assert!(deep.contains("\n| offset: 0 CreateTime: ") && !deep.contains("payload: "));
    let (_, contents, _) = dumped(&["--print-data-log", "--skip-record-metadata", "--files", &path]);
    assert!(contents.contains("\n| key: ") && !contents.contains("| offset: "));
    let (_, bytes, _) =
        dumped(&["--value-decoder-class", "org.apache.kafka.tools.api.DefaultDecoder", "--files", &path]);
    assert!(bytes.contains(" payload: "));
    let (code, _, err) = dumped(&["--key-decoder-class", "org.apache.kafka.tools.api.LongDecoder", "--files", &path]);
    assert!(code == 1 && err.contains("too few"), "{err}");
    assert!(
        Arguments::try_parse_from(["ottla", "dump-log", "--key-decoder-class", "my.Decoder", "--files", "x"]).is_err()
    );
}

#[test]
fn checks_indexes() {
    let (fixture, log) = plain_log();
    let dir = fixture.data().join("plain-0");
    let index = log.replace(".log", ".index");
    let times = log.replace(".log", ".timeindex");
    let (code, out, err) = dumped(&["--index-sanity-check", "--files", &format!("{index},{times}")]);
    assert_eq!((code, err.as_str()), (0, ""));
    let expected =
        format!("Dumping {index}\n{index} passed sanity check.\nDumping {times}\n{times} passed sanity check.\n");
    assert_eq!(out, expected);
    let (_, out, _) = dumped(&["--verify-index-only", "--files", &index]);
    assert_eq!(out, format!("Dumping {index}\n"));

    // An entry of another batch, and one of another time.
    for (name, at) in [("00000000000000000000.index", 3), ("00000000000000000000.timeindex", 7)] {
        let path = dir.join(name);
        let mut bytes = fs::read(&path).unwrap();
        bytes[at] ^= 1;
        fs::write(&path, bytes).unwrap();
    }
    let (code, _, err) = dumped(&["--verify-index-only", "--files", &format!("{index},{times}")]);
    assert_eq!(code, 0);
    assert!(err.contains(&format!("Mismatches in :{index}\n  Index offset: 38, log offset: 39\n")), "{err}");
    assert!(err.contains(&format!("Found timestamp mismatch in :{times}\n  Index timestamp: ")), "{err}");
}

#[test]
fn shows_damage_and_says_where_it_ends() {
    let (fixture, path) = plain_log();
    let sound = fs::read(&path).unwrap();
    let (_, whole, _) = dumped(&["--files", &path]);
    let lines = whole.lines().count();

    fs::write(&path, [&sound[..], &[1; 20]].concat()).unwrap();
    let (code, out, _) = dumped(&["--files", &path]);
    assert!(code == 0 && out.ends_with("Found 20 invalid bytes at the end of 00000000000000000000.log\n"), "{out}");

    let mut flipped = sound.clone();
    flipped[100] ^= 1;
    flipped[16] = 7;
    fs::write(&path, flipped).unwrap();
    let (code, out, _) = dumped(&["--files", &path]);
    assert_eq!((code, out.lines().count()), (0, lines));
    assert!(out.lines().nth(2).unwrap().contains(" magic: 7 ") && out.contains(" isvalid: false\n"), "{out}");

    fs::write(&path, [&sound[..], &[0; 200]].concat()).unwrap();
    let (code, out, err) = dumped(&["--files", &path]);
    assert_eq!((code, out.lines().count()), (1, lines));
    assert!(err.starts_with(&format!("ottla: {path}: at {}", sound.len())), "{err}");

    // An unknown codec, and a batch whose length has no room for its header: as much of the line as there is.
    let mut flipped = sound.clone();
    flipped[22] = 7;
    fs::write(&path, flipped).unwrap();
    let (code, out, _) = dumped(&["--files", &path]);
    assert!(code == 1 && out.ends_with(" deleteHorizonMs: OptionalLong.empty"), "{out}");
    let mut flipped = sound;
    flipped[8..12].copy_from_slice(&40i32.to_be_bytes());
    fs::write(&path, flipped).unwrap();
    let (code, out, _) = dumped(&["--deep-iteration", "--files", &path]);
    assert!(code == 1 && out.contains(" size: 52 magic: 2 ") && out.ends_with(" isvalid: false\n"), "{out}");
    assert_eq!(out.lines().count(), 3);
    drop(fixture);
}

/// What Kafka's tool does with them, but for what is on standard error behind the name of the file.
#[test]
fn files_that_are_none() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| format!("{}/{name}", dir.path().display());
    let log = "00000000000000000000.log";
    let (code, out, err) = dumped(&["--files", &path(log)]);
    assert_eq!((code, out), (1, format!("Dumping {}\nLog starting offset: 0\n", path(log))));
    assert!(err.starts_with(&format!("ottla: {}: No such file", path(log))), "{err}");
    for missing in ["00000000000000000000.index", "00000000000000000000.timeindex", "00000000000000000000.snapshot"] {
        let (code, out, _) = dumped(&["--files", &path(missing)]);
        assert_eq!((code, out), (1, format!("Dumping {}\n", path(missing))));
    }
    // Most segments have no aborted transactions, and so no file.
    let missing = path("00000000000000000000.txnindex");
    assert_eq!(dumped(&["--files", &missing]), (0, format!("Dumping {missing}\n"), String::new()));
    // What is not called like the file of a log is passed over.
    let (code, _, err) = dumped(&["--files", &path("no-such-file")]);
    assert!(code == 0 && err.starts_with(&format!("Ignoring unknown file {}: No such", path("no-such-file"))), "{err}");
    let (code, _, err) = dumped(&["--files", &path("")]);
    assert!(code == 0 && err.starts_with("Ignoring unknown file ") && err.contains(": a directory; name the"), "{err}");
    fs::write(path("partition.metadata"), "").unwrap();
    let (code, _, err) = dumped(&["--files", &path("partition.metadata")]);
    assert_eq!((code, err), (0, format!("Ignoring unknown file {}\n", path("partition.metadata"))));
    // A directory that is called like one is not.
    fs::create_dir(path(log)).unwrap();
    let (code, out, err) = dumped(&["--files", &path(log)]);
    assert_eq!((code, out), (1, format!("Dumping {}\nLog starting offset: 0\n", path(log))));
    assert!(err.contains(" is a directory: name the files in it, as "), "{err}");
}

/// Messages as Kafka 0.9 and 0.10 wrote them.
#[test]
fn reads_old_formats() {
    fn message(offset: i64, magic: u8, attributes: u8, timestamp: i64, key: Option<&[u8]>, value: &[u8]) -> Vec<u8> {
        let mut body = vec![magic, attributes];
        if magic == 1 {
            body.extend(timestamp.to_be_bytes());
        }
        match key {
            Some(key) => {
                body.extend((key.len() as i32).to_be_bytes());
                body.extend(key);
            }
            None => body.extend((-1i32).to_be_bytes()),
        }
        body.extend((value.len() as i32).to_be_bytes());
        body.extend(value);
        let mut sum = flate2::Crc::new();
        sum.update(&body);
        let mut bytes = offset.to_be_bytes().to_vec();
        bytes.extend((body.len() as i32 + 4).to_be_bytes());
        bytes.extend(sum.sum().to_be_bytes());
        bytes.extend(body);
        bytes
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("00000000000000000000.log");
    let inner = [message(0, 1, 0, 7, None, b"b"), message(1, 1, 0, 8, Some(b"k"), b"c")].concat();
    let mut compressed = Vec::new();
    crate::record::compression::compress(crate::record::compression::Codec::Gzip, -1, &inner, &mut compressed);
    let bytes = [message(0, 0, 0, 0, Some(b"k"), b"a"), message(2, 1, 1, 8, None, &compressed)].concat();
    fs::write(&path, bytes).unwrap();
    let (code, out, err) = dumped(&["--print-data-log", "--files", path.to_str().unwrap()]);
    assert_eq!((code, err.as_str()), (0, ""));
    let without_crc = |line: &str| match line.split_once(" crc: ") {
        Some((before, rest)) => format!("{before}{}", rest.trim_start_matches(|char: char| char.is_ascii_digit())),
        None => line.to_owned(),
    };
    let out: Vec<String> = out.lines().skip(2).map(without_crc).collect();
    let expected = [
        "offset: 0 position: 0 NoTimestampType: -1 size: 28 magic: 0 compresscodec: none isvalid: true",
        "| offset: 0 NoTimestampType: -1 keySize: 1 valueSize: 1 isValid: true key: k payload: a",
        "offset: 2 position: 28 CreateTime: 8 size: SIZE magic: 1 compresscodec: gzip isvalid: true",
        "| offset: 1 CreateTime: 7 keySize: -1 valueSize: 1 isValid: true payload: b",
        "| offset: 2 CreateTime: 8 keySize: 1 valueSize: 1 isValid: true key: k payload: c",
    ];
    let size = format!("size: {}", compressed.len() + 34);
    assert_eq!(out, expected.map(|line| line.replace("size: SIZE", &size)));

    // What these formats cannot hold is shown as far as it goes; a batch that claims to be one of them is none.
    let mut nothing = Vec::new();
    crate::record::compression::compress(crate::record::compression::Codec::Gzip, -1, &[], &mut nothing);
    for (bytes, reason) in [
        (message(0, 1, 4, 7, None, b"x"), "zstd in a message of an old format"),
        (message(0, 1, 1, 7, None, &nothing), "a compressed message holds no messages"),
    ] {
        fs::write(&path, bytes).unwrap();
        let (code, out, _) = dumped(&["--files", path.to_str().unwrap()]);
        assert_eq!((code, out.lines().count()), (0, 3), "{reason}");
        let (code, out, err) = dumped(&["--deep-iteration", "--files", path.to_str().unwrap()]);
        assert!(code == 1 && out.lines().count() == 3 && err.contains(reason), "{reason}: {err}");
    }
    let (fixture, log) = plain_log();
    let mut bytes = fs::read(&log).unwrap();
    bytes[16] = 1;
    fs::write(&log, bytes).unwrap();
    let (code, out, _) = dumped(&["--deep-iteration", "--files", &log]);
    assert!(code == 1 && out.ends_with(" magic: 1 compresscodec: snappy crc: 0 isvalid: false\n"), "{out}");
    assert_eq!(out.lines().count(), 3);
    // Of a negative magic there is no format.
    let mut bytes = fs::read(&log).unwrap();
    bytes[16] = 0xff;
    fs::write(&log, bytes).unwrap();
    let (code, out, _) = dumped(&["--files", &log]);
    assert!(code == 1 && out.ends_with("Log starting offset: 0\noffset: 0"), "{out}");
    drop(fixture);
}

/// Key and value of a record.
type Stored<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

/// What Kafka's tool prints of these, without the words of a stack trace.
#[test]
fn says_what_kafka_says_of_records_that_are_not_the_decoders() {
    use crate::record::builder::RecordBatchBuilder;
    use crate::types::Offset;

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("00000000000000000000.log");
    let text = path.to_str().unwrap();
    let said = |decoder: &str, records: &[Stored<'_>]| -> Vec<String> {
        let mut batch = RecordBatchBuilder::new(Offset(0));
        records.iter().for_each(|(key, value)| batch.append(1, *key, *value, &[]));
        fs::write(&path, batch.build()).unwrap();
        let (code, out, err) = dumped(&[decoder, "--files", text]);
        assert_eq!((code, &*err), (0, ""));
        let lines = out.lines().filter_map(|line| line.split_once(" headerKeys: [] "));
        lines.map(|(_, said)| said.to_owned()).collect()
    };
    let metadata: [&[u8]; 9] = [
        b"\x76",
        b"\0\x01",
        b"",
        b"\x01\x0a\x01\0",
        b"\x01\xff\xff\x03\0",
        b"\x01\x02",
        b"\x01\xe8\x07\0",
        b"\x01\x02\0\x02aAAAAAAAAAAAAAAAA\0",
        b"\x01\x02\0\x02aAAAAAAAAAAAAAAAA\0more",
    ];
    let records: Vec<Stored<'_>> = metadata.into_iter().map(|value| (None, Some(value))).collect();
    let expected = [
        "payload: Error at 0, skipping. Could not deserialize metadata record due to unknown frame version 118(only frame \
         version 1 is supported)",
        "payload: Error at 1, skipping. Could not deserialize metadata record with frame version 0. Note that upgrades from the \
         preview release of KRaft in 2.8 to newer versions are not supported.",
        "payload: Error at 2, skipping. Error while reading frame version",
        "payload: Error at 3, skipping. Failed to deserialize record with type 10",
        "payload: Error at 4, skipping. Value for type was too large.",
        "payload: Error at 5, skipping. Error while reading version",
        "payload: Error at 6, skipping. org.apache.kafka.common.errors.UnsupportedVersionException: Unknown metadata id 1000",
        "payload: {\"type\":\"TOPIC_RECORD\",\"version\":0,\"data\":{\"name\":\"a\",\"topicId\":\"QUFBQUFBQUFBQUFBQUFBQQ\"}}",
        "payload: Error at 8, skipping. Found 4 byte(s) of garbage after 2",
    ];
    assert_eq!(said("--cluster-metadata-decoder", &records), expected);

    let of_coordinators: [Stored<'_>; 8] = [
        (Some(b"k"), Some(b"x")),
        (Some(b"\x7f\xff"), Some(b"x")),
        (Some(b"\0\x02\0\x01g"), Some(b"x")),
        (Some(b"\0\x02\0\x01g"), Some(b"\0\x63")),
        (Some(b"\0\x02\0\x01g"), None),
        (Some(b"\0\x02\0"), Some(b"\0\0")),
        (Some(b"\0\x02\0\x09g"), None),
        (Some(b"\0\x02\xff\xff"), None),
    ];
    let expected = [
        "key: Error at offset 0, skipping. Could not read version from key's buffer.",
        "key: Unknown record type 32767 at offset 1, skipping.",
        "key: Error at offset 2, skipping. Could not read version from value's buffer.",
        "key: Error at offset 3, skipping. Found an unknown record version 99 for 2 type",
        "key: {\"type\":\"2\",\"data\":{\"group\":\"g\"}} payload: <DELETE>",
        "key: Error at offset 5, skipping. Could not read record with version 2 from key's buffer due to: null.",
        "key: Error at offset 6, skipping. Could not read record with version 2 from key's buffer due to: Error reading byte \
         array of 9 byte(s): only 1 byte(s) available.",
        "key: Error at offset 7, skipping. Could not read record with version 2 from key's buffer due to: non-nullable field \
         group was serialized as null.",
    ];
    assert_eq!(said("--offsets-decoder", &of_coordinators), expected);
    let expected = expected[..2].iter().copied().chain([
        "key: Unknown record type 2 at offset 2, skipping.",
        "key: Unknown record type 2 at offset 3, skipping.",
        "key: Unknown record type 2 at offset 4, skipping.",
        "key: Unknown record type 2 at offset 5, skipping.",
        "key: Unknown record type 2 at offset 6, skipping.",
        "key: Unknown record type 2 at offset 7, skipping.",
    ]);
    assert_eq!(said("--transaction-log-decoder", &of_coordinators), expected.collect::<Vec<_>>());
}

/// As Kafka's tool, which takes the first of the version's two bytes for all of it.
#[test]
fn shows_transaction_indexes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("00000000000000000000.txnindex");
    let entry = |version: i16| [&version.to_be_bytes()[..], &[0, 0, 0, 0, 0, 0, 0, 5].repeat(4)].concat();
    fs::write(&path, [entry(0), entry(1), entry(-1), vec![0; 10]].concat()).unwrap();
    let text = path.to_str().unwrap();
    let (code, out, err) = dumped(&["--files", text]);
    let line = |version| format!("version: {version} producerId: 5 firstOffset: 5 lastOffset: 5 lastStableOffset: 5\n");
    assert_eq!(out, format!("Dumping {text}\n{}{}{}", line(0), line(0), line(-1)));
    assert_eq!((code, err), (0, format!("{text}: it ends with 10 bytes of an entry\n")));
    fs::write(&path, [entry(0), entry(256)].concat()).unwrap();
    let (code, out, err) = dumped(&["--files", text]);
    assert_eq!((code, out), (1, format!("Dumping {text}\n")));
    assert!(err.contains("of version 1,"), "{err}");
    let other = dir.path().join("no-offset.txnindex");
    fs::write(&other, entry(0)).unwrap();
    assert_eq!(dumped(&["--files", other.to_str().unwrap()]).0, 1);
}

#[test]
fn a_comma_behind_the_last_file_names_none() {
    let (_fixture, path) = plain_log();
    let (code, out, _) = dumped(&["--files", &format!("{path},")]);
    assert_eq!((code, &out), (0, &dumped(&["--files", &path]).1));
    // Before others there is a file without a name, which is passed over.
    let (code, named, _) = dumped(&["--files", &format!(",{path}")]);
    assert_eq!((code, named), (0, format!("Dumping \n{out}")));
}
