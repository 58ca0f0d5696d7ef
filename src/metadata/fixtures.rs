//! Data directories that Apache Kafka 4.3.1 wrote (`tests/golden/fixtures`), for tests.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

pub const NAMES: [&str; 5] = ["plain", "metadata", "metadata-dynamic", "formatted", "unclean"];

fn path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/fixtures").join(file)
}

fn decompressed(file: &str) -> Vec<u8> {
    let bytes = std::fs::read(path(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let mut out = Vec::new();
    zstd::Decoder::new(&bytes[..]).unwrap().read_to_end(&mut out).unwrap();
    out
}

/// The files of a data directory, by their path within it.
pub fn files(name: &str) -> BTreeMap<String, Vec<u8>> {
    let tar = decompressed(&format!("{name}.tar.zst"));
    let mut files = BTreeMap::new();
    let mut rest = &tar[..];
    // ustar: a header of 512 bytes, the content, padded to 512.
    while rest.len() >= 512 && rest[0] != 0 {
        let text = |from: usize, len: usize| {
            let field = &rest[from..from + len];
            let end = field.iter().position(|byte| *byte == 0).unwrap_or(len);
            std::str::from_utf8(&field[..end]).unwrap().trim().to_owned()
        };
        let size = usize::from_str_radix(&text(124, 12), 8).unwrap();
        let prefix = text(345, 155);
        let full = if prefix.is_empty() { text(0, 100) } else { format!("{prefix}/{}", text(0, 100)) };
        let inner = full.strip_prefix("data/").unwrap_or(&full).to_owned();
        if rest[156] == b'0' {
            files.insert(inner, rest[512..512 + size].to_vec());
        }
        rest = &rest[512 + size.next_multiple_of(512)..];
    }
    assert!(!files.is_empty(), "{name}");
    files
}

/// Unpacks a data directory.
pub fn unpack(name: &str, into: &Path) {
    for (file, content) in files(name) {
        let path = into.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
}

/// A record as Kafka's DumpLogSegments prints it.
#[derive(Debug)]
pub struct DumpedRecord {
    pub offset: i64,
    /// The name in front of a control record's JSON, else empty.
    pub control: String,
    pub json: Value,
}

/// What Kafka's DumpLogSegments says of each metadata log segment and checkpoint, by path.
pub fn dump(name: &str) -> BTreeMap<String, Vec<DumpedRecord>> {
    let text = String::from_utf8(decompressed(&format!("{name}.dump.zst"))).unwrap();
    let mut dumps: BTreeMap<String, Vec<DumpedRecord>> = BTreeMap::new();
    let mut current = None;
    for line in text.lines() {
        if let Some(path) = line.strip_prefix("Dumping ") {
            let wanted =
                path.starts_with("__cluster_metadata-0/") && (path.ends_with(".log") || path.ends_with(".checkpoint"));
            current = wanted.then(|| path.to_owned());
            continue;
        }
        let (Some(path), Some(record)) = (&current, line.strip_prefix("| offset: ")) else { continue };
        let offset = record.split(' ').next().unwrap().parse().unwrap();
        let (_, rest) = record.split_once("headerKeys: [] ").unwrap();
        let (label, json) = rest.split_at(rest.find('{').unwrap());
        let control = match label.trim().trim_end_matches(':') {
            "payload" => String::new(),
            control => control.to_owned(),
        };
        let json = serde_json::from_str(json).unwrap_or_else(|error| panic!("{json}: {error}"));
        dumps.entry(path.clone()).or_default().push(DumpedRecord { offset, control, json });
    }
    dumps
}
