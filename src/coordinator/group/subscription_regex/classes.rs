//! The named classes of RE2/J, by what they have of ASCII.

/// Characters of ASCII, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AsciiSet(u128);

impl AsciiSet {
    pub(super) const EMPTY: AsciiSet = AsciiSet(0);
    pub(super) const ALL: AsciiSet = AsciiSet(u128::MAX);
    pub(super) const UPPER: AsciiSet = AsciiSet::range(b'A', b'Z');
    pub(super) const LOWER: AsciiSet = AsciiSet::range(b'a', b'z');
    pub(super) const DIGIT: AsciiSet = AsciiSet::range(b'0', b'9');
    pub(super) const LETTER: AsciiSet = AsciiSet::UPPER.or(AsciiSet::LOWER);
    pub(super) const WORD: AsciiSet = AsciiSet::LETTER.or(AsciiSet::DIGIT).or(AsciiSet::of(b"_"));
    pub(super) const CONTROL: AsciiSet = AsciiSet::range(0, 0x1f).or(AsciiSet::of(b"\x7f"));
    /// `\s`, which is without the vertical tab that `[:space:]` has.
    pub(super) const PERL_SPACE: AsciiSet = AsciiSet::of(b"\t\n\x0c\r ");

    /// Both ends included.
    pub(super) const fn range(first: u8, last: u8) -> AsciiSet {
        assert!(first <= last && last < 128);
        AsciiSet((u128::MAX >> (127 - last)) & (u128::MAX << first))
    }

    pub(super) const fn of(characters: &[u8]) -> AsciiSet {
        let mut set = 0;
        let mut at = 0;
        while at < characters.len() {
            set |= 1 << characters[at];
            at += 1;
        }
        AsciiSet(set)
    }

    pub(super) const fn or(self, other: AsciiSet) -> AsciiSet {
        AsciiSet(self.0 | other.0)
    }

    pub(super) const fn and(self, other: AsciiSet) -> AsciiSet {
        AsciiSet(self.0 & other.0)
    }

    pub(super) const fn not(self) -> AsciiSet {
        AsciiSet(!self.0)
    }

    /// What of ASCII lies between two characters, both included.
    pub(super) fn between(first: char, last: char) -> AsciiSet {
        match u8::try_from(first) {
            Ok(first @ 0..128) => AsciiSet::range(first, u8::try_from(last).unwrap_or(127).min(127)),
            _ => AsciiSet::EMPTY,
        }
    }

    /// With the other case of all its letters.
    pub(super) fn folded(self) -> AsciiSet {
        let distance = b'a' - b'A';
        let to_upper = self.and(AsciiSet::LOWER).0 >> distance;
        let to_lower = self.and(AsciiSet::UPPER).0 << distance;
        AsciiSet(self.0 | to_upper | to_lower)
    }

    pub(super) fn contains(self, character: u8) -> bool {
        character < 128 && self.0 >> character & 1 == 1
    }

    /// Its ranges of neighbours, both ends included.
    pub(super) fn ranges(self) -> impl Iterator<Item = (u8, u8)> {
        let mut next = 0;
        std::iter::from_fn(move || {
            let first = (next..128).find(|at| self.contains(*at))?;
            let last = (first..128).take_while(|at| self.contains(*at)).last()?;
            next = last + 1;
            Some((first, last))
        })
    }
}

/// `[:NAME:]`, without its `^`.
pub(super) fn posix(name: &str) -> Option<AsciiSet> {
    Some(match name {
        "alnum" => AsciiSet::LETTER.or(AsciiSet::DIGIT),
        "alpha" => AsciiSet::LETTER,
        "ascii" => AsciiSet::ALL,
        "blank" => AsciiSet::of(b"\t "),
        "cntrl" => AsciiSet::CONTROL,
        "digit" => AsciiSet::DIGIT,
        "graph" => AsciiSet::range(b'!', b'~'),
        "lower" => AsciiSet::LOWER,
        "print" => AsciiSet::range(b' ', b'~'),
        "punct" => AsciiSet::range(b'!', b'~').and(AsciiSet::LETTER.or(AsciiSet::DIGIT).not()),
        "space" => AsciiSet::PERL_SPACE.or(AsciiSet::of(b"\x0b")),
        "upper" => AsciiSet::UPPER,
        "word" => AsciiSet::WORD,
        "xdigit" => AsciiSet::DIGIT.or(AsciiSet::of(b"abcdefABCDEF")),
        _ => return None,
    })
}

/// `\p{NAME}`: a general category or a script, without its `^`. With `folded`, in either case, as far as RE2/J goes there: for `Ll` its
/// table has two letters only.
pub(super) fn unicode(name: &str, folded: bool) -> Option<AsciiSet> {
    Some(match name {
        "Any" => AsciiSet::ALL,
        "C" | "Cc" => AsciiSet::CONTROL,
        "L" | "Latin" => AsciiSet::LETTER,
        "Ll" if folded => AsciiSet::LOWER.or(AsciiSet::of(b"KS")),
        "Ll" => AsciiSet::LOWER,
        "Lu" if folded => AsciiSet::LETTER,
        "Lu" => AsciiSet::UPPER,
        "N" | "Nd" => AsciiSet::DIGIT,
        "P" => AsciiSet::of(b"!\"#%&'()*,-./:;?@[\\]_{}"),
        "Pc" => AsciiSet::of(b"_"),
        "Pd" => AsciiSet::of(b"-"),
        "Pe" => AsciiSet::of(b")]}"),
        "Po" => AsciiSet::of(b"!\"#%&'*,./:;?@\\"),
        "Ps" => AsciiSet::of(b"([{"),
        "S" => AsciiSet::of(b"$+<=>^`|~"),
        "Sc" => AsciiSet::of(b"$"),
        "Sk" => AsciiSet::of(b"^`"),
        "Sm" => AsciiSet::of(b"+<=>|~"),
        "Z" | "Zs" => AsciiSet::of(b" "),
        "Common" => AsciiSet::LETTER.not(),
        "Cf" | "Co" | "Cs" | "Lm" | "Lo" | "Lt" | "M" | "Mc" | "Me" | "Mn" | "Nl" | "No" | "Pf" | "Pi" | "So"
        | "Zl" | "Zp" => AsciiSet::EMPTY,
        _ if OTHER_SCRIPTS.binary_search(&name).is_ok() => AsciiSet::EMPTY,
        _ => return None,
    })
}

/// The scripts that RE2/J 1.8 knows and that have nothing of ASCII, sorted.
#[rustfmt::skip]
const OTHER_SCRIPTS: [&str; 94] = [
    "Arabic", "Armenian", "Avestan", "Balinese", "Bamum", "Batak", "Bengali", "Bopomofo", "Brahmi", "Braille",
    "Buginese", "Buhid", "Canadian_Aboriginal", "Carian", "Cham", "Cherokee", "Coptic", "Cuneiform", "Cypriot",
    "Cyrillic", "Deseret", "Devanagari", "Egyptian_Hieroglyphs", "Ethiopic", "Georgian", "Glagolitic", "Gothic",
    "Greek", "Gujarati", "Gurmukhi", "Han", "Hangul", "Hanunoo", "Hebrew", "Hiragana", "Imperial_Aramaic", "Inherited",
    "Inscriptional_Pahlavi", "Inscriptional_Parthian", "Javanese", "Kaithi", "Kannada", "Katakana", "Kayah_Li",
    "Kharoshthi", "Khmer", "Lao", "Lepcha", "Limbu", "Linear_B", "Lisu", "Lycian", "Lydian", "Malayalam", "Mandaic",
    "Meetei_Mayek", "Mongolian", "Myanmar", "New_Tai_Lue", "Nko", "Ogham", "Ol_Chiki", "Old_Italic", "Old_Persian",
    "Old_South_Arabian", "Old_Turkic", "Oriya", "Osmanya", "Phags_Pa", "Phoenician", "Rejang", "Runic", "Samaritan",
    "Saurashtra", "Shavian", "Sinhala", "Sundanese", "Syloti_Nagri", "Syriac", "Tagalog", "Tagbanwa", "Tai_Le",
    "Tai_Tham", "Tai_Viet", "Tamil", "Telugu", "Thaana", "Thai", "Tibetan", "Tifinagh", "Ugaritic", "Unknown", "Vai",
    "Yi",
];
