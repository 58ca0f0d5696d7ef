//! What is none of a node's logs, or not yet: logs that were set aside, that wait for their deletion, and copies of a move.

use super::*;
use crate::storage::directory_name::{DirectoryName, name_for};

fn copy_of(fixture: &Fixture, name: &str, to: &str, without: &[&str]) -> String {
    let target = fixture.data().join(to);
    fs::create_dir(&target).unwrap();
    for entry in fs::read_dir(fixture.data().join(name)).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        if !without.iter().any(|part| file.ends_with(part)) {
            fs::copy(fixture.data().join(name).join(&file), target.join(&file)).unwrap();
        }
    }
    to.to_owned()
}

/// They lack what a start would go by, as none opens them: a log was set aside while it was in use, or for want of its topic's id. It was
/// a fault, which no repair mended.
#[test]
fn what_no_start_opens_lacks_nothing() {
    let fixture = Fixture::unpack("plain");
    let (code, before) = verified(&[&data(&fixture)]);
    assert_eq!(code, 0, "{before:#?}");
    let log = log_of(&fixture);
    let partition = log.topic_partition.clone();
    let (stray, deleted) = (DirectoryKind::Stray, DirectoryKind::Deleted);
    let [stray, deleted] = [stray, deleted].map(|kind| name_for(&partition, kind).to_string());
    copy_of(&fixture, &partition.to_string(), &stray, &[".snapshot", "partition.metadata"]);
    copy_of(&fixture, &partition.to_string(), &deleted, &[".snapshot", ".log", "partition.metadata"]);
    let begun = "no-such-topic-0.0123456789abcdef0123456789abcdef-future";
    fs::create_dir(fixture.data().join(begun)).unwrap();

    let (code, lines) = verified(&[&data(&fixture)]);
    assert_eq!(code, 0, "{lines:#?}");
    let said = |name: &str| said_of(&lines, name).iter().map(|line| line.to_string()).collect::<Vec<_>>();
    assert_eq!(
        said(&stray),
        [format!(
            "note  {stray}: was set aside, as the metadata does not give it to this node, or another one took its place"
        )]
    );
    assert_eq!(said(&deleted), [format!("note  {deleted}: waits for its deletion")]);
    assert_eq!(
        said(begun),
        [format!("note  {begun}: is a copy that was only begun: a start removes it, and begins anew")]
    );

    // Records that cannot be read are told of all the same.
    let segment = fixture.data().join(&stray).join("00000000000000000000.log");
    let mut bytes = fs::read(&segment).unwrap();
    bytes[80] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let (code, lines) = verified(&["--dry-run", &data(&fixture)]);
    assert_eq!((code, said_of(&lines, &format!("{stray}/")).len()), (1, 1), "{lines:#?}");
}

/// A log with records.
fn log_of(fixture: &Fixture) -> DirectoryName {
    let names = fs::read_dir(fixture.data()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter_map(|name| DirectoryName::parse(&name)).collect();
    names.sort_by_key(|name| name.topic_partition.to_string());
    let is_full = |name: &DirectoryName| {
        let log = fixture.data().join(name.topic_partition.to_string()).join("00000000000000000000.log");
        &*name.topic_partition.topic != METADATA_TOPIC && fs::metadata(log).is_ok_and(|info| info.len() > 0)
    };
    names.into_iter().find(is_full).unwrap()
}
