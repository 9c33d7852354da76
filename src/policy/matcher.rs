//! Label matchers, as Alertmanager has them: `namespace="shop"`, `{workload=~"web-.*", severity!="info"}`.
//!
//! There are two grammars. In the classic one, a name is made of ASCII letters, digits, `_` and `:`, and a value may stand without quotes, whatever it is. In that of UTF-8,
//! any text in quotes may be a name, too, and escapes are those of Go. As in Alertmanager's default mode, the second is tried first, and the first wins where
//! both can read a text but understand it differently (<https://prometheus.io/docs/alerting/latest/configuration/#label-matchers>).

use std::{fmt, str::FromStr};

use regex::Regex;

/// How a label is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operator {
    /// It is this text.
    Equal,
    /// It is not this text.
    NotEqual,
    /// All of it matches this regular expression.
    Matches,
    /// Not all of it matches this regular expression.
    MatchesNot,
}

impl Operator {
    /// The longer ones first: `=` begins `=~`.
    const ALL: [Self; 4] = [Self::Matches, Self::MatchesNot, Self::NotEqual, Self::Equal];

    /// The operator, as it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Matches => "=~",
            Self::MatchesNot => "!~",
        }
    }

    fn at_start_of(text: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|operator| text.starts_with(operator.as_str()))
    }
}

/// A condition on one label. A label that is absent is the empty text.
///
/// Regular expressions are those of the crate `regex`, whose syntax is almost that of Go. They match all of a value or nothing.
#[derive(Debug, Clone)]
pub struct Matcher {
    name: Box<str>,
    operator: Operator,
    value: Box<str>,
    regex: Option<Regex>,
}

impl PartialEq for Matcher {
    fn eq(&self, other: &Self) -> bool {
        // Without `..`: a new field cannot be forgotten here. The expression is made from the value.
        let Self {
            name,
            operator,
            value,
            regex: _,
        } = self;
        *name == other.name && *operator == other.operator && *value == other.value
    }
}

impl Eq for Matcher {}

impl Matcher {
    /// A matcher of the label `name`.
    ///
    /// # Errors
    ///
    /// The name is empty, or the value is no regular expression where it has to be one.
    pub fn new(name: &str, operator: Operator, value: &str) -> Result<Self, MatcherError> {
        Raw {
            name: name.to_owned(),
            operator,
            value: value.to_owned(),
            name_at: 0,
            value_at: 0,
        }
        .checked()
    }

    /// The label that it looks at.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How it compares.
    pub const fn operator(&self) -> Operator {
        self.operator
    }

    /// What it compares with: a text, or a regular expression.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Whether the label's value is as it should be. An absent label is the empty text.
    pub fn matches(&self, value: &str) -> bool {
        let matched = || {
            self.regex
                .as_ref()
                .is_some_and(|regex| regex.is_match(value))
        };
        match self.operator {
            Operator::Equal => *self.value == *value,
            Operator::NotEqual => *self.value != *value,
            Operator::Matches => matched(),
            Operator::MatchesNot => !matched(),
        }
    }
}

impl fmt::Display for Matcher {
    /// As Alertmanager prints it: `namespace="shop"`. The name is in quotes where it has to be.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.contains(is_reserved) {
            write!(f, "\"{}\"", escape(&self.name))?;
        } else {
            f.write_str(&self.name)?;
        }
        let operator = self.operator.as_str();
        write!(f, "{operator}\"{}\"", escape(&self.value))
    }
}

impl FromStr for Matcher {
    type Err = MatcherError;

    /// Reads one matcher, without braces.
    fn from_str(text: &str) -> Result<Self, MatcherError> {
        let raw = either(utf8::single(text), || classic::single(text, 0))?;
        raw.checked()
    }
}

/// Matchers of which all must match: `{a="b", c=~"d"}`. None of them match everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Matchers(Vec<Matcher>);

impl Matchers {
    /// The matchers, in the order in which they are written.
    pub fn iter(&self) -> impl Iterator<Item = &Matcher> {
        self.0.iter()
    }

    /// Whether all of them match. `label` is the value of a label by its name; empty if there is none.
    pub fn match_all<'a>(&self, mut label: impl FnMut(&str) -> &'a str) -> bool {
        self.iter()
            .all(|matcher| matcher.matches(label(&matcher.name)))
    }
}

impl FromIterator<Matcher> for Matchers {
    fn from_iter<I: IntoIterator<Item = Matcher>>(matchers: I) -> Self {
        Self(matchers.into_iter().collect())
    }
}

impl IntoIterator for Matchers {
    type Item = Matcher;
    type IntoIter = std::vec::IntoIter<Matcher>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl fmt::Display for Matchers {
    /// As Alertmanager prints them: `{a="b",c=~"d"}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (place, matcher) in self.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(f, "{comma}{matcher}")?;
        }
        f.write_str("}")
    }
}

impl FromStr for Matchers {
    type Err = MatcherError;

    /// Reads matchers in braces, or without.
    fn from_str(text: &str) -> Result<Self, MatcherError> {
        let all = either(utf8::list(text), || classic::list(text))?;
        all.into_iter().map(Raw::checked).collect()
    }
}

/// Why a text is no matcher.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct MatcherError {
    /// Where in the text; in bytes from its start, at a boundary between characters.
    pub at: usize,
    /// What is wrong there.
    pub problem: MatcherProblem,
}

/// What is wrong with a matcher.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MatcherProblem {
    /// There is no label to look at.
    #[error("a label's name is missing here: write a matcher such as namespace=\"shop\"")]
    NoName,
    /// The name is followed by something else than an operator.
    #[error("an operator is missing here: write =, !=, =~ or !~ after the label's name")]
    NoOperator,
    /// The operator is followed by nothing.
    #[error(
        "a value is missing here: write one in double quotes, or \"\" for a label that is absent"
    )]
    NoValue,
    /// Something follows that does not belong to the matcher.
    #[error(
        "nothing may follow here: put a value with special characters in double quotes, and write several matchers as {{a=\"b\", c=\"d\"}}"
    )]
    Trailing,
    /// Two matchers are not kept apart.
    #[error("a comma or a closing brace is missing here")]
    NoComma,
    /// The braces do not match.
    #[error("the brace that opens here is never closed: write }} at the end")]
    Unclosed,
    /// A quoted text does not end.
    #[error("the text that begins here has no closing double quote; inside of it, write \\\"")]
    Unquoted,
    /// An escape that means nothing.
    #[error("this escape means nothing: write \\\\ for a backslash")]
    Escape,
    /// The value has to be a regular expression.
    #[error("this is no regular expression: {0}")]
    Regex(String),
}

impl MatcherProblem {
    const fn at(self, at: usize) -> MatcherError {
        MatcherError { at, problem: self }
    }
}

/// What is read, before it is looked into.
#[derive(Debug)]
struct Raw {
    name: String,
    operator: Operator,
    value: String,
    name_at: usize,
    value_at: usize,
}

impl PartialEq for Raw {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.operator == other.operator && self.value == other.value
    }
}

impl Raw {
    fn checked(self) -> Result<Matcher, MatcherError> {
        if self.name.is_empty() {
            return Err(MatcherProblem::NoName.at(self.name_at));
        }
        let regex = match self.operator {
            Operator::Equal | Operator::NotEqual => None,
            Operator::Matches | Operator::MatchesNot => {
                let regex = anchored(&self.value)
                    .map_err(|error| MatcherProblem::Regex(reason(&error)).at(self.value_at))?;
                Some(regex)
            }
        };
        Ok(Matcher {
            name: self.name.into(),
            operator: self.operator,
            value: self.value.into(),
            regex,
        })
    }
}

/// The expression that matches all of a text, or nothing.
fn anchored(pattern: &str) -> Result<Regex, regex::Error> {
    // By itself first: `a)|(b` must not become valid by what is put around it. The line break ends a comment (`(?x) a # b`).
    Regex::new(pattern)?;
    Regex::new(&format!("^(?:{pattern})$")).or_else(|_| Regex::new(&format!("^(?:{pattern}\n)$")))
}

/// The last line of the crate's explanation: the others draw the expression.
fn reason(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    last.trim_start_matches("error: ").to_owned()
}

/// What both grammars make of a text; the error is that of the newer one.
fn either<T: PartialEq>(
    utf8: Result<T, MatcherError>,
    classic: impl FnOnce() -> Option<T>,
) -> Result<T, MatcherError> {
    match (utf8, classic()) {
        (Ok(_) | Err(_), Some(classic)) => Ok(classic),
        (utf8, None) => utf8,
    }
}

/// Whether a character must be in quotes.
fn is_reserved(character: char) -> bool {
    character.is_whitespace() || "{}!=~,\\\"'`".contains(character)
}

/// Escapes what both grammars understand.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('\n', "\\n")
        .replace('"', "\\\"")
}

/// The grammar of UTF-8 (`matcher/parse` of Alertmanager).
mod utf8 {
    use super::{MatcherError, MatcherProblem, Operator, Raw, is_reserved};

    pub(super) fn single(text: &str) -> Result<Raw, MatcherError> {
        let mut cursor = Cursor { text, at: 0 };
        let matcher = cursor.matcher()?;
        cursor.end()?;
        Ok(matcher)
    }

    pub(super) fn list(text: &str) -> Result<Vec<Raw>, MatcherError> {
        let mut cursor = Cursor { text, at: 0 };
        cursor.space();
        let opened_at = cursor.at;
        let opened = cursor.take("{");
        let mut matchers = Vec::new();
        loop {
            cursor.space();
            if opened && cursor.take("}") {
                break;
            }
            if cursor.rest().is_empty() {
                if opened {
                    return Err(MatcherProblem::Unclosed.at(opened_at));
                }
                break;
            }
            matchers.push(cursor.matcher()?);
            cursor.space();
            if cursor.take(",") {
                continue;
            }
            if !opened {
                break;
            }
            if !cursor.rest().is_empty() && !cursor.rest().starts_with('}') {
                return Err(MatcherProblem::NoComma.at(cursor.at));
            }
        }
        cursor.end()?;
        Ok(matchers)
    }

    struct Cursor<'a> {
        text: &'a str,
        at: usize,
    }

    impl<'a> Cursor<'a> {
        fn rest(&self) -> &'a str {
            self.text.get(self.at..).unwrap_or_default()
        }

        fn space(&mut self) {
            self.at = self.text.len() - self.rest().trim_start().len();
        }

        fn take(&mut self, token: &str) -> bool {
            let found = self.rest().starts_with(token);
            if found {
                self.at += token.len();
            }
            found
        }

        fn end(&mut self) -> Result<(), MatcherError> {
            self.space();
            if self.rest().is_empty() {
                Ok(())
            } else {
                Err(MatcherProblem::Trailing.at(self.at))
            }
        }

        fn matcher(&mut self) -> Result<Raw, MatcherError> {
            self.space();
            let name_at = self.at;
            let name = self.word(MatcherProblem::NoName)?;
            self.space();
            let operator = Operator::at_start_of(self.rest())
                .ok_or_else(|| MatcherProblem::NoOperator.at(self.at))?;
            self.at += operator.as_str().len();
            self.space();
            let value_at = self.at;
            let value = self.word(MatcherProblem::NoValue)?;
            Ok(Raw {
                name,
                operator,
                value,
                name_at,
                value_at,
            })
        }

        /// A text in quotes, or one without that has no special characters.
        fn word(&mut self, missing: MatcherProblem) -> Result<String, MatcherError> {
            if self.rest().starts_with('"') {
                return self.quoted();
            }
            let rest = self.rest();
            let word = rest.find(is_reserved).map_or(rest, |end| &rest[..end]);
            if word.is_empty() {
                return Err(missing.at(self.at));
            }
            self.at += word.len();
            Ok(word.to_owned())
        }

        /// A text in double quotes, with the escapes of Go.
        fn quoted(&mut self) -> Result<String, MatcherError> {
            let start = self.at;
            self.at += 1;
            // As bytes: `\xc3\xa4` is one character.
            let mut bytes = Vec::new();
            loop {
                let Some(character) = self.rest().chars().next() else {
                    return Err(MatcherProblem::Unquoted.at(start));
                };
                let at = self.at;
                self.at += character.len_utf8();
                match character {
                    '"' => break,
                    '\n' => return Err(MatcherProblem::Unquoted.at(start)),
                    '\\' => self
                        .escape(&mut bytes)
                        .ok_or_else(|| MatcherProblem::Escape.at(at))?,
                    _ => {
                        let mut buffer = [0; 4];
                        bytes.extend(character.encode_utf8(&mut buffer).bytes());
                    }
                }
            }
            String::from_utf8(bytes).map_err(|_| MatcherProblem::Escape.at(start))
        }

        /// What follows a backslash.
        fn escape(&mut self, bytes: &mut Vec<u8>) -> Option<()> {
            let kind = self.rest().chars().next()?;
            self.at += kind.len_utf8();
            let byte = match kind {
                'a' => 0x07,
                'b' => 0x08,
                'f' => 0x0c,
                'n' => b'\n',
                'r' => b'\r',
                't' => b'\t',
                'v' => 0x0b,
                '\\' => b'\\',
                '"' => b'"',
                'x' => u8::try_from(self.digits(2, 16)?).ok()?,
                '0'..='7' => {
                    self.at -= 1;
                    u8::try_from(self.digits(3, 8)?).ok()?
                }
                'u' | 'U' => {
                    let length = if kind == 'u' { 4 } else { 8 };
                    let character = char::from_u32(self.digits(length, 16)?)?;
                    bytes.extend(character.encode_utf8(&mut [0; 4]).bytes());
                    return Some(());
                }
                _ => return None,
            };
            bytes.push(byte);
            Some(())
        }

        fn digits(&mut self, length: usize, radix: u32) -> Option<u32> {
            let digits = self.rest().get(..length)?;
            // Else a sign would pass.
            if !digits.chars().all(|digit| digit.is_digit(radix)) {
                return None;
            }
            self.at += length;
            u32::from_str_radix(digits, radix).ok()
        }
    }
}

/// The classic grammar (`pkg/labels` of Alertmanager). It says nothing about errors: those of the other one say more.
mod classic {
    use super::{Operator, Raw};

    /// `offset` is where the text is in what it was cut from.
    pub(super) fn single(text: &str, offset: usize) -> Option<Raw> {
        let start = text.len() - text.trim_start().len();
        let rest = text.trim();
        let is_inner = |character: char| {
            character.is_ascii_alphanumeric() || character == '_' || character == ':'
        };
        let length = rest.find(|c| !is_inner(c)).unwrap_or(rest.len());
        let (name, rest) = rest.split_at(length);
        if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) {
            return None;
        }
        let rest = rest.trim_start();
        let operator = Operator::at_start_of(rest)?;
        let raw = rest[operator.as_str().len()..].trim_start();
        Some(Raw {
            name: name.to_owned(),
            operator,
            value: value(raw)?,
            name_at: offset + start,
            value_at: offset + text.trim_end().len() - raw.len(),
        })
    }

    pub(super) fn list(text: &str) -> Option<Vec<Raw>> {
        let inner = text.trim();
        let offset = text.len() - text.trim_start().len();
        let (inner, offset) = match inner.strip_prefix('{') {
            Some(inner) => (inner.strip_suffix('}')?, offset + 1),
            None => (inner, offset),
        };
        let mut matchers = Vec::new();
        let mut start = 0;
        let (mut quoted, mut escaped) = (false, false);
        let ends = inner.char_indices().filter_map(|(at, character)| {
            let ends = character == ',' && !quoted;
            match character {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => quoted = !quoted,
                _ => {}
            }
            ends.then_some(at)
        });
        let ends: Vec<usize> = ends.chain([inner.len()]).collect();
        for end in ends {
            let part = inner.get(start..end)?;
            let is_last = end == inner.len();
            if !(is_last && part.trim().is_empty()) {
                matchers.push(single(part, offset + start)?);
            }
            start = end + 1;
        }
        Some(matchers)
    }

    /// Only three escapes mean something, and the others stand for themselves.
    fn value(raw: &str) -> Option<String> {
        let inner = match raw.strip_prefix('"') {
            Some(inner) => inner.strip_suffix('"')?,
            None => raw,
        };
        let mut value = String::new();
        let mut characters = inner.chars();
        while let Some(character) = characters.next() {
            match character {
                '"' => return None,
                '\\' => match characters.next() {
                    Some('n') => value.push('\n'),
                    Some(known @ ('\\' | '"')) => value.push(known),
                    Some(other) => value.extend(['\\', other]),
                    // The quote at the end was escaped, or nothing follows.
                    None if raw.starts_with('"') => return None,
                    None => value.push('\\'),
                },
                _ => value.push(character),
            }
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mk(name: &str, operator: Operator, value: &str) -> Matcher {
        Matcher::new(name, operator, value).unwrap()
    }

    #[test]
    fn both_grammars_are_read() {
        use Operator::{Equal, Matches, MatchesNot, NotEqual};
        for (text, name, operator, value) in [
            ("a=b", "a", Equal, "b"),
            ("a!=\"b\"", "a", NotEqual, "b"),
            (" a =~ \"b.*\" ", "a", Matches, "b.*"),
            ("a!~b|c", "a", MatchesNot, "b|c"),
            ("a=\"\"", "a", Equal, ""),
            ("a=\"b\\\"c\\\\d\\ne\"", "a", Equal, "b\"c\\d\ne"),
            // Classic only.
            ("a=", "a", Equal, ""),
            ("a=b=c", "a", Equal, "b=c"),
            ("a=b c", "a", Equal, "b c"),
            ("a=~[a-z]{2,}", "a", Matches, "[a-z]{2,}"),
            ("a=~\"\\d+\"", "a", Matches, "\\d+"),
            // UTF-8 only.
            ("\"a b\"=c", "a b", Equal, "c"),
            (
                "app.kubernetes.io/name=web",
                "app.kubernetes.io/name",
                Equal,
                "web",
            ),
            ("ä=\"ö\"", "ä", Equal, "ö"),
            ("\"\\u00e4\"=b", "ä", Equal, "b"),
            ("\"\\xc3\\xa4\\303\\244\"=b", "ää", Equal, "b"),
            // Both, but differently.
            ("a=\"\\u00e4\"", "a", Equal, "\\u00e4"),
            ("a=\"\\t\"", "a", Equal, "\\t"),
        ] {
            assert_eq!(text.parse(), Ok(mk(name, operator, value)), "{text}");
        }
    }

    #[test]
    fn lists_are_read_with_and_without_braces() {
        for (text, printed) in [
            ("{}", "{}"),
            ("", "{}"),
            ("a=b", "{a=\"b\"}"),
            ("a=b, \"c d\"=e", "{a=\"b\",\"c d\"=\"e\"}"),
            ("a=b c,d=", "{a=\"b c\",d=\"\"}"),
            ("{a=b}", "{a=\"b\"}"),
            (" { a = \"b\" , c =~ d, } ", "{a=\"b\",c=~\"d\"}"),
            ("{a=\",}\",b!=\"{\"}", "{a=\",}\",b!=\"{\"}"),
            ("{\"a,b\"=c}", "{\"a,b\"=\"c\"}"),
            ("{a=b c,d=e}", "{a=\"b c\",d=\"e\"}"),
        ] {
            let matchers: Matchers = text.parse().unwrap();
            assert_eq!(matchers.to_string(), printed, "{text}");
        }
    }

    #[test]
    fn errors_say_where_and_what_to_write() {
        use MatcherProblem as P;
        for (text, at, problem) in [
            ("=b", 0, P::NoName),
            ("\"\"=b", 0, P::NoName),
            ("a", 1, P::NoOperator),
            ("namespace ~ b", 10, P::NoOperator),
            ("\"ä\" b", 5, P::NoOperator),
            ("\"a b\"=", 6, P::NoValue),
            ("\"a b\"=c d", 8, P::Trailing),
            ("a=\"b", 2, P::Unquoted),
            ("\"a\\q\"=b", 2, P::Escape),
            ("\"\\xff\"=b", 0, P::Escape),
            ("{a=b", 0, P::Unclosed),
            ("{a=\"b\" c=\"d\"}", 7, P::NoComma),
            ("{\"a b\"=c}}", 9, P::Trailing),
            ("{,}", 1, P::NoName),
            ("{a=b,,c=d}", 5, P::NoName),
        ] {
            let error = text.parse::<Matchers>().unwrap_err();
            assert_eq!(error, problem.at(at), "{text}");
        }
        let error = "a=~\"b(\"".parse::<Matchers>().unwrap_err();
        assert_eq!(error.at, 3);
        assert_eq!(
            error.to_string(),
            "this is no regular expression: unclosed group"
        );
        "{a=~\"a)|(b\"}".parse::<Matchers>().unwrap_err();
    }

    #[test]
    fn matching_is_anchored_and_an_absent_label_is_the_empty_text() {
        for (text, value, expected) in [
            ("a=b", "b", true),
            ("a=b", "bb", false),
            ("a=\"\"", "", true),
            ("a!=b", "", true),
            ("a=~\"b|c\"", "b", true),
            ("a=~\"b|c\"", "bc", false),
            ("a=~\"b|c\"", "xb", false),
            ("a=~\"b\"", "b\n", false),
            ("a=~\".*\"", "", true),
            ("a=~\".+\"", "", false),
            ("a!~\".+\"", "", true),
            ("a!~\"dev-.*\"", "dev-1", false),
            ("a=~\"(?m)b\"", "b\nc", false),
            ("a=~\"(?x) b # c\"", "b", true),
            ("a=~\"(?i)ä\"", "Ä", true),
        ] {
            let matcher: Matcher = text.parse().unwrap();
            assert_eq!(matcher.matches(value), expected, "{text} {value:?}");
        }
        let all: Matchers = "{namespace=~\"dev-.*\",container=\"\"}".parse().unwrap();
        let label = |name: &str| if name == "namespace" { "dev-1" } else { "" };
        assert!(all.match_all(label));
        assert!(!all.match_all(|_| "dev-1"));
        assert!(Matchers::default().match_all(|_| ""));
    }

    fn any_matcher() -> impl Strategy<Value = Matcher> {
        let text = || proptest::string::string_regex("(?s).{0,12}").unwrap();
        let name = prop_oneof!["[a-zA-Z_:][a-zA-Z0-9_:]{0,8}", "(?s).{1,8}"];
        (name, 0..4_usize, text()).prop_map(|(name, operator, value)| {
            let operator = Operator::ALL[operator];
            let value = match operator {
                Operator::Equal | Operator::NotEqual => value,
                Operator::Matches | Operator::MatchesNot => {
                    format!("({}|.*)", regex::escape(&value))
                }
            };
            mk(&name, operator, &value)
        })
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_as_the_same(matcher in any_matcher()) {
            prop_assert_eq!(matcher.to_string().parse(), Ok(matcher));
        }

        #[test]
        fn lists_that_are_printed_are_read_as_the_same(
            all in proptest::collection::vec(any_matcher(), 0..4),
        ) {
            let all = Matchers(all);
            prop_assert_eq!(all.to_string().parse(), Ok(all));
        }

        #[test]
        fn any_text_is_read_or_refused_at_a_place_in_it(text in "(?s)[\"\\\\{},=!~a-cä \\n(]{0,16}") {
            if let Err(error) = text.parse::<Matchers>() {
                prop_assert!(text.is_char_boundary(error.at), "{}", error.at);
            }
            if let Err(error) = text.parse::<Matcher>() {
                prop_assert!(text.is_char_boundary(error.at), "{}", error.at);
            }
        }
    }
}
