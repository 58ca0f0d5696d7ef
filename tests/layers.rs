//! Holds the order of the layers: a module imports only modules to its left (ARCHITECTURE.md).
//!
//! It reads the paths that begin with `crate::` or `ottla::` in every source file, `use` lines and expressions alike.

use std::fs;
use std::path::{Path, PathBuf};

/// Left to right; modules that share a place may not import each other, but for `types`, `clock` and `config`.
const LAYERS: [&[&str]; 14] = [
    &["types", "clock"],
    &["config"],
    &["record"],
    &["storage"],
    &["protocol"],
    &["security"],
    &["client"],
    &["net"],
    &["metadata"],
    &["quorum"],
    &["controller"],
    &["replica"],
    &["coordinator"],
    &["server"],
];

/// What the binary is made of: above all others.
const TOP: &str = "cli";

/// May be used from anywhere and uses nothing but the clock.
const EVERYWHERE: &str = "telemetry";

/// The position of a layer; `None` for a name that is no layer.
fn place(module: &str) -> Option<usize> {
    if module == TOP {
        return Some(LAYERS.len());
    }
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// All `.rs` files below `folder`.
fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

/// The first module names of every `crate::…` path in `text`, comments left out. `use crate::{a, b::c}` names both.
fn imports(text: &str) -> Vec<String> {
    let code: String = text.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n");
    let mut names = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let mut depth = 0;
            let mut start = true;
            let mut name = String::new();
            for c in group.chars() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => {
                        names.push(std::mem::take(&mut name));
                        start = true;
                    }
                    c if depth == 0 && start && (c.is_alphanumeric() || c == '_') => name.push(c),
                    ':' if depth == 0 => start = false,
                    _ => {}
                }
            }
            names.push(name);
        } else {
            names.push(rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect());
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// The import that breaks the order, if any, as a sentence.
fn fault(module: &str, imported: &str) -> Option<String> {
    if imported == EVERYWHERE || imported == module {
        return None;
    }
    if module == EVERYWHERE {
        return (imported != "clock")
            .then(|| format!("{EVERYWHERE} imports {imported}: it may import nothing but clock"));
    }
    let (Some(own), Some(other)) = (place(module), place(imported)) else {
        return Some(format!("{module} imports {imported}: one of them is in no layer"));
    };
    (other >= own).then(|| format!("{module} imports {imported}, which is not to its left"))
}

#[test]
fn every_module_imports_only_from_its_left() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 10, "the sources were not found");
    let mut faults = Vec::new();
    for file in files {
        let relative = file.strip_prefix(&root).unwrap();
        let first = relative.components().next().unwrap().as_os_str().to_string_lossy().into_owned();
        let module = first.trim_end_matches(".rs").to_string();
        if module == "lib" || module == "main" {
            continue;
        }
        for imported in imports(&fs::read_to_string(&file).unwrap()) {
            if let Some(fault) = fault(&module, &imported) {
                faults.push(format!("{}: {fault}", relative.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn handlers_do_not_reach_past_the_replica_to_the_disk() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/server/handlers");
    let mut files = Vec::new();
    sources(&folder, &mut files);
    for file in files {
        let names = imports(&fs::read_to_string(&file).unwrap());
        assert!(!names.iter().any(|name| name == "storage"), "{} imports storage", file.display());
    }
}

#[test]
fn an_import_to_the_right_is_found() {
    assert_eq!(imports("use crate::{types::Offset, net::{frame, listener}, server};"), ["types", "net", "server"]);
    assert_eq!(imports("let x = crate::record::batch::HEADER;\n// crate::cli is only spoken of"), ["record"]);
    assert!(fault("storage", "protocol").is_some());
    assert!(fault("storage", "record").is_none());
    assert!(fault("cli", "server").is_none());
    assert!(fault("server", "cli").is_some());
    assert!(fault("record", "nowhere").is_some());
}
