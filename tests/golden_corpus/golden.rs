//! The golden files of `tests/golden`, line by line.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use ottla::protocol::ApiKey;
use serde_json::Value;

/// A request that a real client sent, with what a real broker answered, and what Kafka's classes read from both.
pub struct Exchange {
    /// Where it stands, for messages.
    pub place: String,
    pub api_key: ApiKey,
    pub version: i16,
    /// The request's frame, without its length.
    pub request: Bytes,
    /// The response's frame, if there was one.
    pub response: Option<Bytes>,
    pub decoded: Value,
}

impl Exchange {
    /// Bytes that the client sent after the body.
    pub fn request_leftover(&self) -> usize {
        let note = self.decoded["note"].as_str().unwrap_or_default();
        note.split_once(" bytes left of the request").map_or(0, |(count, _)| count.parse().expect("a number"))
    }
}

/// A message that Kafka's classes wrote.
pub struct Written {
    pub place: String,
    pub api_key: ApiKey,
    pub version: i16,
    pub is_request: bool,
    /// The message, without a header.
    pub body: Bytes,
    pub json: Value,
}

/// A damaged request body, and what Kafka's classes make of it.
pub struct Mutated {
    pub place: String,
    pub api_key: ApiKey,
    pub version: i16,
    pub body: Bytes,
    /// `None` if Kafka refuses it; else the bytes it leaves unread, and the body it would write for what it read.
    pub kafka: Option<(usize, Bytes)>,
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn text(path: &Path) -> String {
    let mut text = String::new();
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    zstd::Decoder::new(file).and_then(|mut decoder| decoder.read_to_string(&mut text)).expect("zstd text");
    text
}

fn lines(path: &Path) -> Vec<Value> {
    text(path).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn unhex(text: &str) -> Bytes {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex")).collect()
}

fn hex(value: &Value) -> Option<Bytes> {
    value.as_str().map(unhex)
}

fn number(value: &Value) -> i16 {
    value.as_i64().and_then(|number| number.try_into().ok()).expect("an i16")
}

/// Every exchange of the corpus. Bare SASL tokens, which have no header, are left out.
pub fn exchanges() -> Vec<Exchange> {
    let mut exchanges = Vec::new();
    let corpus = directory().join("corpus");
    for entry in fs::read_dir(&corpus).expect("the corpus") {
        let path = entry.expect("an entry").path();
        if !path.is_file() {
            continue;
        }
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let frames = lines(&path);
        let decoded = lines(&corpus.join("decoded").join(&name));
        assert_eq!(frames.len(), decoded.len(), "{name} and what was decoded from it");
        for (index, (frame, decoded)) in frames.into_iter().zip(decoded).enumerate() {
            if frame["api_key"] == -1 {
                continue;
            }
            let (api_key, version) = (number(&frame["api_key"]), number(&frame["api_version"]));
            exchanges.push(Exchange {
                place: format!("{name}:{} {} v{version}", index + 1, frame["api_name"]),
                api_key: ApiKey::from_key(api_key).expect("an API of Kafka's"),
                version,
                request: hex(&frame["request_hex"]).expect("a request"),
                response: hex(&frame["response_hex"]),
                decoded,
            });
        }
    }
    exchanges
}

/// Every message written by Kafka's classes.
pub fn written() -> Vec<Written> {
    lines(&directory().join("messages.jsonl.zst"))
        .into_iter()
        .enumerate()
        .map(|(index, mut line)| {
            let api_key = ApiKey::from_key(number(&line["api_key"])).expect("an API of Kafka's");
            let version = number(&line["version"]);
            Written {
                place: format!("messages:{} {api_key} {} v{version}", index + 1, line["kind"]),
                api_key,
                version,
                is_request: line["kind"] == "request",
                body: hex(&line["hex"]).expect("a body"),
                json: line["json"].take(),
            }
        })
        .collect()
}

/// Every damaged request.
pub fn mutated() -> Vec<Mutated> {
    let text = text(&directory().join("mutated.txt.zst"));
    let parse = |(index, line): (usize, &str)| {
        let mut words = line.split(' ');
        let mut word = || words.next().expect("a word");
        let key = word().parse().expect("a key");
        let api_key = ApiKey::from_key(key).expect("an API of Kafka's");
        let version = word().parse().expect("a version");
        let body = unhex(word());
        let kafka = match word() {
            "refused" => None,
            unread => Some((unread.parse().expect("a number"), unhex(word()))),
        };
        Mutated { place: format!("mutated:{} {api_key} v{version}", index + 1), api_key, version, body, kafka }
    };
    text.lines().enumerate().map(parse).collect()
}
