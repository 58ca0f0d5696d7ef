//! The settings as given: the file, then what the arguments say instead.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::Arguments;
use crate::config::properties;

/// Keys that say where data is.
const DATA_KEYS: [&str; 3] = ["log.dir", "log.dirs", "metadata.log.dir"];

/// Reads `KEY=VALUE`; the value may be empty and have `=` in it.
pub(super) fn parse_override(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.to_owned())),
        _ => Err("KEY=VALUE is expected".to_owned()),
    }
}

/// What was given, by key. `data`, if there is one, is where all data goes, whatever else was said.
pub(super) fn read(arguments: &Arguments, data: Option<&Path>) -> Result<BTreeMap<String, String>, String> {
    let mut given = BTreeMap::new();
    if let Some(path) = &arguments.properties {
        let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        given = properties::parse(&bytes).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    given.extend(arguments.overrides.iter().cloned());
    if let Some(data) = data {
        let text = data.to_str().ok_or_else(|| format!("{}: the path is not UTF-8", data.display()))?;
        DATA_KEYS.iter().for_each(|key| {
            given.remove(*key);
        });
        given.insert("log.dirs".to_owned(), text.to_owned());
    }
    Ok(given)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_win_over_the_file_and_ephemeral_over_both() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("server.properties");
        fs::write(&path, "node.id=7\nlog.dirs=/data\nmetadata.log.dir=/meta\n").unwrap();
        let mut arguments = Arguments { properties: Some(path), ..Arguments::default() };
        arguments.overrides = vec![parse_override("node.id=8").unwrap(), parse_override("log.dir=/x").unwrap()];

        let given = read(&arguments, None).unwrap();
        let pairs: Vec<_> = given.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let expected = [("log.dir", "/x"), ("log.dirs", "/data"), ("metadata.log.dir", "/meta"), ("node.id", "8")];
        assert_eq!(pairs, expected);

        let given = read(&arguments, Some(Path::new("/tmp/e"))).unwrap();
        let pairs: Vec<_> = given.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(pairs, [("log.dirs", "/tmp/e"), ("node.id", "8")]);
    }

    #[test]
    fn says_which_file_it_could_not_read() {
        let arguments = Arguments { properties: Some("/nowhere/server.properties".into()), ..Arguments::default() };
        assert!(read(&arguments, None).unwrap_err().starts_with("/nowhere/server.properties: "));
    }
}
