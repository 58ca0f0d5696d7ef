//! Points in time and durations as ISO 8601 writes them.

use crate::client::Error;
use crate::config::java;

const MS_OF_DAY: i64 = 86_400_000;

/// `2026-01-31T23:59:59.123`, in UTC, or with `Z`, `+02`, `+0200`, `+02:00` at its end. In ms since 1970.
pub fn date_time(text: &str) -> Result<i64, Error> {
    // Without a zone it is read as if one stood there.
    let zoned = |time: &str| time.contains(['Z', '+', '-']);
    let z = if text.split_once('T').is_some_and(|(_, time)| zoned(time)) { "" } else { "Z" };
    let unparseable = || Error::new("java.text.ParseException", format!("Unparseable date: \"{text}{z}\""));
    let (date, time) = text.split_once('T').ok_or_else(|| {
        Error::new(
            "java.text.ParseException",
            "Error parsing timestamp. It does not contain a 'T' according to ISO8601 format",
        )
    })?;
    let (time, zone) = match time.find(['Z', '+', '-']) {
        Some(at) => time.split_at(at),
        None => (time, "Z"),
    };
    let number = |text: &str, digits: usize| -> Option<i64> {
        (text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
    };
    let parsed = || -> Option<i64> {
        let mut date = date.splitn(3, '-');
        let (year, month, day) = (number(date.next()?, 4)?, number(date.next()?, 2)?, number(date.next()?, 2)?);
        let (clock, ms) = time.split_once('.')?;
        let mut clock = clock.splitn(3, ':');
        let (hour, minute, second) = (number(clock.next()?, 2)?, number(clock.next()?, 2)?, number(clock.next()?, 2)?);
        let ms = number(ms, 3)?;
        let in_month = days(year, month + 1) - days(year, month);
        if !(1..=12).contains(&month) || !(1..=in_month).contains(&day) || hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let offset = match zone.strip_prefix('Z') {
            Some(rest) => rest.is_empty().then_some(0)?,
            None => {
                let digits = zone[1..].replace(':', "");
                let (hours, minutes) = digits.split_at_checked(2)?;
                let minutes = if minutes.is_empty() { 0 } else { number(minutes, 2)? };
                let minutes = number(hours, 2)? * 60 + minutes;
                if zone.starts_with('-') { -minutes } else { minutes }
            }
        };
        let minutes = (hour * 60 + minute) - offset;
        Some((days(year, month) + day - 1) * MS_OF_DAY + minutes * 60_000 + second * 1000 + ms)
    };
    parsed().ok_or_else(unparseable)
}

/// Days from 1970 to the first of a month; month 13 is the next January.
fn days(year: i64, month: i64) -> i64 {
    let (year, month) = if month > 12 { (year + 1, month - 12) } else { (year, month) };
    // Years that begin in March have their leap day at the end.
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + (153 * month + 2) / 5 - 719_468
}

/// `P1DT2H3M4.5S`, in ms.
pub fn duration(text: &str) -> Result<i64, Error> {
    let invalid = || Error::new("java.time.format.DateTimeParseException", "Text cannot be parsed to a Duration");
    java::duration_ms(text).ok_or_else(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_in_time() {
        assert_eq!(date_time("1970-01-01T00:00:00.000").unwrap(), 0);
        assert_eq!(date_time("2000-02-29T01:00:00.007+01:00").unwrap(), 951_782_400_007);
        assert_eq!(date_time("2026-11-30T23:59:59.999Z").unwrap(), 1_796_083_199_999);
        assert_eq!(date_time("1969-12-31T22:00:00.000-02").unwrap(), 0);
        assert_eq!(
            date_time("2024-12-31T00:00:00.000").unwrap() + 86_400_000,
            date_time("2025-01-01T00:00:00.000").unwrap()
        );
        for wrong in ["2026-11-30", "2026-02-29T00:00:00.000", "2026-11-30T24:00:00.000", "2026-11-30T00:00:00", "xT"] {
            assert!(date_time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations() {
        assert_eq!(duration("P1DT2H3M4.5S").unwrap(), 93_784_500);
        assert_eq!(duration("pt10m").unwrap(), 600_000);
        assert_eq!(duration("-PT1S").unwrap(), -1000);
        for wrong in ["", "P", "PT", "1D", "PT1D", "P1H", "PT1.5H", "PTxS"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
