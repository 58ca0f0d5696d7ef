//! Our answers against RE2/J's, for thousands of made-up patterns (`tests/golden/regexes`).
//!
//! The first line has names of topics. Each other has a pattern, a tab, and whether each name matches, or why the pattern is none.

use std::path::Path;

use super::SubscriptionRegex;

#[test]
fn answers_are_those_of_re2j() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/regexes/patterns.tsv.zst");
    let file = zstd::decode_all(std::fs::File::open(path).unwrap()).unwrap();
    let mut lines = std::str::from_utf8(&file).unwrap().lines();
    let names: Vec<&str> = lines.next().unwrap().split(' ').collect();
    let mut wrong = Vec::new();
    let mut valid = 0;
    for line in lines {
        let (pattern, expected) = line.rsplit_once('\t').unwrap();
        let ours = match SubscriptionRegex::compile(pattern) {
            Ok(regex) => {
                valid += 1;
                names.iter().map(|name| if regex.is_match(name) { '1' } else { '0' }).collect()
            }
            Err(error) => error.reason.to_string(),
        };
        if ours != expected {
            wrong.push(format!("{pattern}\n    expected {expected}\n    got      {ours}"));
        }
    }
    assert!(wrong.is_empty(), "{} patterns:\n{}", wrong.len(), wrong.join("\n"));
    assert!(valid > 1000, "only {valid} patterns were valid");
}
