//! `kafka-dump-log`: `ottla dump-log` under Kafka's name.

use clap::Parser as _;

use super::{KAFKA_VERSION, complain, say};
use crate::cli::Arguments;

pub fn run(words: &[String]) -> u8 {
    if words.iter().any(|word| word == "--version") {
        say!("{KAFKA_VERSION}");
        return 0;
    }
    let words = ["ottla", "dump-log"].into_iter().chain(words.iter().map(String::as_str));
    match Arguments::try_parse_from(words) {
        Ok(Arguments { tool: Some(tool), .. }) => tool.run(),
        Ok(_) => 1,
        Err(error) => {
            // Help, too, as Kafka's tool has it.
            complain!("{error}");
            1
        }
    }
}
