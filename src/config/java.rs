//! Java's ways with text, where a client can see them: what counts as a number, how a double or a list is printed,
//! and in which order a hash set lists its members.
//!
//! Kafka's messages quote values through these, and tools match on the messages.

/// `String.trim`: everything up to U+0020 goes from both ends.
pub fn trim(text: &str) -> &str {
    text.trim_matches(|c| c <= ' ')
}

/// The characters that `\s` stands for in a pattern.
pub(super) fn is_pattern_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\x0B' | '\x0C' | '\r')
}

/// Splits as the pattern `\s*,\s*` does, keeping empty parts.
pub(super) fn split_commas(text: &str) -> impl Iterator<Item = &str> {
    let mut parts = text.split(',').peekable();
    let mut first = true;
    std::iter::from_fn(move || {
        let mut part = parts.next()?;
        if !first {
            part = part.trim_start_matches(is_pattern_space);
        }
        first = false;
        if parts.peek().is_some() {
            part = part.trim_end_matches(is_pattern_space);
        }
        Some(part)
    })
}

/// `String.split` by one character: empty parts at the end are dropped.
pub fn split(text: &str, separator: char) -> Vec<&str> {
    let mut parts: Vec<&str> = text.split(separator).collect();
    while parts.len() > 1 && parts.last().is_some_and(|part| part.is_empty()) {
        parts.pop();
    }
    parts
}

/// `Integer.parseInt` and its kin: a sign, then decimal digits of the ASCII range.
pub fn parse_integer<T: TryFrom<i64>>(text: &str) -> Option<T> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    T::try_from(text.parse::<i64>().ok()?).ok()
}

/// `Double.parseDouble`, without hexadecimal notation.
pub fn parse_double(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    match unsigned {
        "NaN" => return Some(f64::NAN),
        "Infinity" => return Some(if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY }),
        _ => {}
    }
    let number = unsigned.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(unsigned);
    // Rust would also take a second sign, and "inf" and "nan" in any case
    if number.starts_with(['+', '-'])
        || !number.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'))
    {
        return None;
    }
    let value: f64 = number.parse().ok()?;
    Some(if text.starts_with('-') { -value } else { value })
}

/// `Double.toString`: plain between 10^-3 and 10^7, else with an exponent, always with a digit after the point.
pub fn double_text(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let size = value.abs();
    if size == 0.0 || (1e-3..1e7).contains(&size) {
        let text = format!("{value}");
        return if text.contains('.') { text } else { text + ".0" };
    }
    let text = format!("{value:e}");
    let (mantissa, exponent) = text.split_once('e').expect("an exponent was asked for");
    let point = if mantissa.contains('.') { "" } else { ".0" };
    format!("{mantissa}{point}E{exponent}")
}

/// `List.toString`, and that of a set.
pub(super) fn list_text<S: AsRef<str>>(items: &[S]) -> String {
    let items: Vec<&str> = items.iter().map(AsRef::as_ref).collect();
    format!("[{}]", items.join(", "))
}

/// Sorts keys as a `HashMap` or a `HashSet` lists them whose table has so many buckets, a power of two. Those of one bucket
/// stay in their order.
pub fn sort_by_hash<T>(keys: &mut [T], table: u32, hash: impl Fn(&T) -> u32) {
    let bucket = |hash: u32| (hash ^ (hash >> 16)) & (table - 1);
    keys.sort_by_cached_key(|key| bucket(hash(key)));
}

/// The same for names.
pub fn hash_order(names: &mut [&str], table: u32) {
    sort_by_hash(names, table, |name| string_hash(name));
}

/// `String.hashCode`.
pub fn string_hash(text: &str) -> u32 {
    text.encode_utf16().fold(0, |hash: u32, unit| hash.wrapping_mul(31).wrapping_add(unit.into()))
}

/// Sorts names as a `HashMap` lists them into which they were put one by one, in their order.
pub fn in_hash_order(names: &mut [&str]) {
    let table = grown_table(names.len());
    hash_order(names, table);
}

/// Buckets of a table that has grown to so many entries.
pub fn grown_table(entries: usize) -> u32 {
    let mut table = 16;
    while entries > table as usize / 4 * 3 {
        table *= 2;
    }
    table
}

/// Buckets of a table that was made for so many entries and has got them.
pub fn sized_table(entries: usize) -> u32 {
    let made_for = (entries.max(1) as u32).next_power_of_two();
    if entries as u64 * 4 > u64::from(made_for) * 3 { made_for * 2 } else { made_for }
}

/// Buckets of a map that was made as a copy of one with so many entries.
pub fn copied_map(entries: usize) -> u32 {
    // Exact: a third more, cut off, plus one. Java does it in floats, which agree far beyond any number of partitions.
    ((entries as u64 * 4 / 3 + 1) as u32).next_power_of_two()
}

/// Buckets of a set that was made as a copy of so many elements.
pub fn copied_set(elements: usize) -> u32 {
    copied_map(elements).max(16)
}

/// `java.time.Duration.parse` of `P1DT2H3M4.5S`, in ms.
pub fn duration_ms(text: &str) -> Option<i64> {
    fn sum(text: &str, units: &[(char, f64)]) -> Option<f64> {
        let (mut sum, mut rest, mut units) = (0.0, text, units.iter());
        while !rest.is_empty() {
            let end = rest.find(|letter: char| letter.is_ascii_alphabetic())?;
            let unit = rest[end..].chars().next()?;
            let (_, ms) = units.find(|(name, _)| *name == unit)?;
            if unit != 'S' && rest[..end].contains('.') {
                return None;
            }
            sum += rest[..end].parse::<f64>().ok()? * ms;
            rest = &rest[end + 1..];
        }
        Some(sum)
    }
    let upper = text.to_uppercase();
    let (sign, rest) = match upper.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, upper.strip_prefix('+').unwrap_or(&upper)),
    };
    let rest = rest.strip_prefix('P').filter(|rest| !rest.is_empty())?;
    let (date, time) = match rest.split_once('T') {
        Some((_, "")) => return None,
        Some((date, time)) => (date, time),
        None => (rest, ""),
    };
    let ms = sum(date, &[('D', 86_400_000.0)])? + sum(time, &[('H', 3_600_000.0), ('M', 60_000.0), ('S', 1000.0)])?;
    Some((sign * ms) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_print_as_java_prints_them() {
        for (value, text) in [
            (0.5, "0.5"),
            (1000.0, "1000.0"),
            (0.0, "0.0"),
            (f64::MAX, "1.7976931348623157E308"),
            (2147483647.0, "2.147483647E9"),
            (1e7, "1.0E7"),
            (0.0001, "1.0E-4"),
            (0.05, "0.05"),
            (-1.5, "-1.5"),
        ] {
            assert_eq!(double_text(value), text);
        }
    }

    #[test]
    fn numbers_are_read_as_java_reads_them() {
        assert_eq!(parse_integer::<i32>("+5"), Some(5));
        assert_eq!(parse_integer::<i32>("-2147483648"), Some(i32::MIN));
        for text in ["", "+", "2147483648", "1_000", "0x10", "5.0", " 5", "--5"] {
            assert_eq!(parse_integer::<i32>(text), None, "{text}");
        }
        assert_eq!(parse_integer::<i64>("99999999999999999999"), None);
        assert_eq!(parse_double("1e3"), Some(1000.0));
        assert_eq!(parse_double("-.5f"), Some(-0.5));
        assert_eq!(parse_double("-Infinity"), Some(f64::NEG_INFINITY));
        for text in ["", "inf", "nan", "1e", "0,5", "--1"] {
            assert_eq!(parse_double(text), None, "{text}");
        }
    }

    #[test]
    fn sets_list_their_members_by_hash() {
        let mut names = ["log.dirs", "node.id", "broker.id"];
        hash_order(&mut names, grown_table(3));
        assert_eq!(names, ["node.id", "broker.id", "log.dirs"]);
        let mut numbers = [1, 5, 18, 33];
        sort_by_hash(&mut numbers, 16, |&number| number);
        assert_eq!(numbers, [1, 33, 18, 5], "beyond the table they wrap");
    }

    #[test]
    fn tables_grow_as_javas() {
        // Seen in OpenJDK 17.
        let grown = [0, 1, 12, 13, 24, 25, 48, 49, 360].map(grown_table);
        assert_eq!(grown, [16, 16, 16, 32, 32, 64, 64, 128, 512]);
        let copied = [1, 11, 12, 13, 23, 24, 25, 48, 49].map(copied_set);
        assert_eq!(copied, [16, 16, 32, 32, 32, 64, 64, 128, 128]);
        let copied = [1, 2, 3, 5, 6, 11, 12].map(copied_map);
        assert_eq!(copied, [2, 4, 8, 8, 16, 16, 32]);
    }

    #[test]
    fn commas_split_with_the_space_around_them() {
        let split = |text| split_commas(text).collect::<Vec<_>>();
        assert_eq!(split("a , b,c"), ["a", "b", "c"]);
        assert_eq!(split("a,,"), ["a", "", ""]);
        assert_eq!(split(""), [""]);
    }
}
