//! The levels of the features that Kafka 4.3.1 knows, what they need of each other, and the releases they came with.

use super::argparse::terse;
use super::say;
use crate::client::Error;
use crate::config::java;
use crate::metadata::version::MetadataVersion;

/// A feature that clusters agree on.
pub struct Feature {
    pub name: &'static str,
    pub levels: &'static [Level],
}

/// A level, the level of `metadata.version` with which it became the default, and what it needs of other features.
pub type Level = (i16, i16, &'static [(&'static str, i16)]);

/// All but `metadata.version`, in Kafka's order.
pub const FEATURES: [Feature; 6] = [
    Feature { name: "kraft.version", levels: &[(0, 7, &[]), (1, 21, &[])] },
    Feature { name: "transaction.version", levels: &[(0, 7, &[]), (1, 24, &[]), (2, 24, &[])] },
    Feature { name: "group.version", levels: &[(0, 7, &[]), (1, 22, &[])] },
    Feature { name: "eligible.leader.replicas.version", levels: &[(0, 7, &[]), (1, 26, &[("metadata.version", 23)])] },
    Feature { name: "share.version", levels: &[(0, 7, &[]), (1, 28, &[])] },
    Feature { name: "streams.version", levels: &[(0, 7, &[]), (1, 29, &[])] },
];

/// Known, and not in production.
const NEXT: (i16, &str) = (31, "4.4-IV0");

impl Feature {
    /// The level that goes with a level of `metadata.version`.
    pub fn default_at(&self, metadata: i16) -> i16 {
        self.levels.iter().rev().find(|(_, since, _)| *since <= metadata).map_or(0, |(level, _, _)| *level)
    }
}

/// The names of all levels of `metadata.version`.
fn releases() -> Vec<(i16, &'static str)> {
    let levels = MetadataVersion::MINIMUM.0..=MetadataVersion::LATEST.0;
    levels.map(|level| (level, MetadataVersion(level).name())).chain([NEXT]).collect()
}

/// The name of a level of `metadata.version`.
pub fn release_name(level: i16) -> Option<&'static str> {
    releases().into_iter().find(|(known, _)| *known == level).map(|(_, name)| name)
}

/// `4.0-IV1` is that level, `4.0` and `4.0.1` are the last one of the release. What is not in production
/// yet is only known if that is wanted.
pub fn release(text: &str, unstable: bool) -> Result<i16, Error> {
    let parts = java::split(text, '.');
    let key = if parts.len() > 2 { parts[..2].join(".") } else { text.to_owned() };
    let known = || releases().into_iter().filter(|(level, _)| unstable || *level <= MetadataVersion::LATEST.0);
    let is_named = |(level, name): &(i16, &str)| {
        let release = name.split_once("-IV").map(|(release, _)| release);
        *name == key || *level <= MetadataVersion::LATEST.0 && release == Some(&*key)
    };
    let found = known().rfind(is_named);
    found.map(|(level, _)| level).ok_or_else(|| {
        let names: Vec<&str> = known().map(|(_, name)| name).collect();
        terse(format!("Unknown metadata.version '{text}'. Supported metadata.version are: {}", names.join(", ")))
    })
}

/// Prints which levels go with a release; with the latest if none is named.
pub fn say_defaults(release_version: Option<&str>) -> Result<(), Error> {
    let text = release_version.unwrap_or(MetadataVersion::LATEST.name());
    let metadata = release(text, true)?;
    say!("metadata.version={metadata} ({text})");
    for feature in &FEATURES {
        say!("{}={}", feature.name, feature.default_at(metadata));
    }
    Ok(())
}

/// Prints what a level of a feature needs of others. A level that the feature does not have is `unsupported`.
pub fn say_needs(name: &str, level: i16, unsupported: impl FnOnce() -> Error) -> Result<(), Error> {
    if name == "metadata.version" {
        let release = release_name(level).ok_or_else(|| terse(format!("Unknown metadata.version {level}")))?;
        say!("{name}={level} ({release}) has no dependencies.");
        return Ok(());
    }
    let feature = FEATURES.iter().find(|feature| feature.name == name);
    let feature = feature.ok_or_else(|| terse(format!("Unknown feature: {name}")))?;
    let (_, _, needs) = feature.levels.iter().find(|(known, _, _)| *known == level).ok_or_else(unsupported)?;
    if needs.is_empty() {
        say!("{name}={level} has no dependencies.");
        return Ok(());
    }
    say!("{name}={level} requires:");
    for (needed, level) in *needs {
        match release_name(*level) {
            Some(release) if *needed == "metadata.version" => say!("    {needed}={level} ({release})"),
            _ => say!("    {needed}={level}"),
        }
    }
    Ok(())
}

/// `feature=level`.
pub fn name_and_level(text: &str) -> Result<(&str, i16), Error> {
    let runtime = |reason: String| {
        Error::new("java.lang.RuntimeException", format!("Can't parse feature=level string {text}: {reason}"))
    };
    let (name, level) = text.split_once('=').ok_or_else(|| runtime("equals sign not found.".to_owned()))?;
    let level = java::trim(level);
    let parsed = java::parse_integer(level);
    Ok((java::trim(name), parsed.ok_or_else(|| runtime(format!("unable to parse {level} as a short.")))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_have_levels() {
        assert_eq!(release("4.0", false).unwrap(), 25);
        assert_eq!(release("4.0.1", false).unwrap(), 25);
        assert_eq!(release("4.0-IV1", false).unwrap(), 23);
        assert_eq!(release("4.3-IV0", false).unwrap(), 30);
        assert!(
            release("9.9", false)
                .unwrap_err()
                .message()
                .starts_with("Unknown metadata.version '9.9'. Supported metadata.version are: 3.3-IV3, ")
        );
    }

    #[test]
    fn features_have_defaults_by_release() {
        let defaults = |metadata| FEATURES.each_ref().map(|feature| feature.default_at(metadata));
        assert_eq!(defaults(30), [1, 2, 1, 1, 1, 1]);
        assert_eq!(defaults(25), [1, 2, 1, 0, 0, 0]);
        assert_eq!(defaults(7), [0; 6]);
    }

    #[test]
    fn levels_are_numbers() {
        assert_eq!(name_and_level("a = 5").unwrap(), ("a", 5));
        assert_eq!(
            name_and_level("a").unwrap_err().message(),
            "Can't parse feature=level string a: equals sign not found."
        );
        assert_eq!(
            name_and_level("a=x").unwrap_err().message(),
            "Can't parse feature=level string a=x: unable to parse x as a short."
        );
    }
}
