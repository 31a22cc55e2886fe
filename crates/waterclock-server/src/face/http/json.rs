//! Decisions as JSON, written straight into bytes.
//!
//! Writes what `serde_json` writes, in a fraction of the instructions: names of fields need no escapes, and most texts
//! have none. What decisions never contain (enums with data, numbers of 128 bits, keys of maps that are not text) is an
//! error here, and `serde_json` writes the whole answer. The text of a decision is defined once, by
//! [`DecisionLine`](waterclock_config::DecisionLine).

use std::fmt;

use serde::ser::{Error, Impossible, SerializeMap, SerializeSeq, SerializeStruct};
use serde::{Serialize, Serializer};

use super::field_set::FieldSet;

/// Room for one decision with two limits, so that the answer to one check does not grow step by step.
const ROOM: usize = 640;
/// The most bytes that are reserved for an answer: callers may want few of its fields.
const MOST_ROOM: usize = 16 * 1_024;
/// The type whose fields a caller can choose.
const DECISION: &str = "DecisionLine";

/// An answer as JSON, with these fields of each decision. `decisions`: how many it has, about.
pub(super) fn write<T: Serialize>(answer: &T, fields: FieldSet, decisions: usize) -> Vec<u8> {
    let room = (ROOM * decisions.max(1)).min(MOST_ROOM);
    let mut writer = Writer { bytes: Vec::with_capacity(room), fields };
    match answer.serialize(&mut writer) {
        Ok(()) => writer.bytes,
        Err(Unsupported) => {
            debug_assert_eq!(fields, FieldSet::ALL, "every decision can be written here");
            serde_json::to_vec(answer).unwrap_or_default()
        }
    }
}

/// Two objects as one: the members of the first, then those of the second.
pub(super) fn join(mut first: Vec<u8>, second: &[u8]) -> Vec<u8> {
    if first == b"{}" {
        return second.to_vec();
    }
    if second != b"{}" {
        first.pop();
        first.push(b',');
        first.extend_from_slice(&second[1..]);
    }
    first
}

struct Writer {
    bytes: Vec<u8>,
    fields: FieldSet,
}

/// A value that decisions never contain.
#[derive(Debug)]
struct Unsupported;

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("decisions contain no such value")
    }
}

impl std::error::Error for Unsupported {}

impl Error for Unsupported {
    fn custom<T: fmt::Display>(_: T) -> Unsupported {
        Unsupported
    }
}

impl Writer {
    #[inline]
    fn text(&mut self, text: &str) {
        if needs_escape(text.as_bytes()) {
            // Writing to a Vec does not fail.
            _ = serde_json::to_writer(&mut self.bytes, text);
            return;
        }
        self.bytes.reserve(text.len() + 2);
        self.bytes.push(b'"');
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(b'"');
    }

    #[inline]
    fn number(&mut self, number: impl itoa::Integer) {
        self.bytes.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }
}

/// Whether a text cannot be written as it is: it has a control character, a quotation mark or a backslash.
///
/// Most texts are short, so it takes eight bytes at a time; the last eight may overlap others.
#[inline]
fn needs_escape(text: &[u8]) -> bool {
    let Some(last) = text.last_chunk() else {
        let mut padded = [b' '; 8];
        padded[..text.len()].copy_from_slice(text);
        return any_needs_escape(&padded);
    };
    any_needs_escape(last) || text.as_chunks().0.iter().any(any_needs_escape)
}

/// The same for eight bytes at once. Exact for "is there any", not for which one it is: a borrow can mark the byte after one
/// that is found.
#[inline]
fn any_needs_escape(bytes: &[u8; 8]) -> bool {
    const EACH: u64 = u64::from_ne_bytes([1; 8]);
    let word = u64::from_ne_bytes(*bytes);
    let has_less = |word: u64, than: u8| word.wrapping_sub(EACH * u64::from(than)) & !word;
    let is = |byte: u8| has_less(word ^ (EACH * u64::from(byte)), 1);
    (has_less(word, b' ') | is(b'"') | is(b'\\')) & EACH << 7 != 0
}

/// A list or an object that is being written. A comma precedes each member; that of the first becomes the start.
struct Members<'w> {
    writer: &'w mut Writer,
    /// Where the start is, once there is a member.
    at: usize,
    start: u8,
    end: u8,
    fields: FieldSet,
}

impl<'w> Members<'w> {
    #[inline]
    fn new(writer: &'w mut Writer, [start, end]: [u8; 2], fields: FieldSet) -> Members<'w> {
        let at = writer.bytes.len();
        Members { writer, at, start, end, fields }
    }

    #[inline]
    fn close(self) {
        match self.writer.bytes.get_mut(self.at) {
            Some(comma) => *comma = self.start,
            None => self.writer.bytes.push(self.start),
        }
        self.writer.bytes.push(self.end);
    }
}

/// The longest name of a field that is written in one piece.
const MAX_NAME: usize = 28;

impl SerializeStruct for Members<'_> {
    type Ok = ();
    type Error = Unsupported;

    // Inlined, so that the length of a name is known when it is copied.
    #[inline(always)]
    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Unsupported> {
        if !self.fields.contains(name) {
            return Ok(());
        }
        let end = name.len() + 2;
        if name.len() > MAX_NAME {
            return Err(Unsupported);
        }
        let mut piece = [b'"'; MAX_NAME + 4];
        piece[0] = b',';
        piece[2..end].copy_from_slice(name.as_bytes());
        piece[end + 1] = b':';
        self.writer.bytes.extend_from_slice(&piece[..end + 2]);
        value.serialize(&mut *self.writer)
    }

    #[inline]
    fn end(self) -> Result<(), Unsupported> {
        self.close();
        Ok(())
    }
}

impl SerializeSeq for Members<'_> {
    type Ok = ();
    type Error = Unsupported;

    #[inline]
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unsupported> {
        self.writer.bytes.push(b',');
        value.serialize(&mut *self.writer)
    }

    #[inline]
    fn end(self) -> Result<(), Unsupported> {
        self.close();
        Ok(())
    }
}

impl SerializeMap for Members<'_> {
    type Ok = ();
    type Error = Unsupported;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Unsupported> {
        self.writer.bytes.push(b',');
        let start = self.writer.bytes.len();
        key.serialize(&mut *self.writer)?;
        if self.writer.bytes.get(start) != Some(&b'"') {
            return Err(Unsupported);
        }
        self.writer.bytes.push(b':');
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unsupported> {
        value.serialize(&mut *self.writer)
    }

    fn end(self) -> Result<(), Unsupported> {
        self.close();
        Ok(())
    }
}

/// Methods for values that decisions never contain.
macro_rules! unsupported {
    ($($method:ident($($argument:ty),*) -> $value:ty;)*) => {
        $(fn $method(self, $(_: $argument),*) -> Result<$value, Unsupported> {
            Err(Unsupported)
        })*
    };
}

impl<'w> Serializer for &'w mut Writer {
    type Ok = ();
    type Error = Unsupported;
    type SerializeSeq = Members<'w>;
    type SerializeTuple = Impossible<(), Unsupported>;
    type SerializeTupleStruct = Impossible<(), Unsupported>;
    type SerializeTupleVariant = Impossible<(), Unsupported>;
    type SerializeMap = Members<'w>;
    type SerializeStruct = Members<'w>;
    type SerializeStructVariant = Impossible<(), Unsupported>;

    #[inline]
    fn serialize_bool(self, value: bool) -> Result<(), Unsupported> {
        // Each of a known length, which is copied without a call.
        match value {
            true => self.bytes.extend_from_slice(b"true"),
            false => self.bytes.extend_from_slice(b"false"),
        }
        Ok(())
    }

    #[inline]
    fn serialize_u64(self, value: u64) -> Result<(), Unsupported> {
        match u8::try_from(value) {
            // As most costs and waits are.
            Ok(digit @ 0..=9) => self.bytes.push(b'0' + digit),
            _ => self.number(value),
        }
        Ok(())
    }

    fn serialize_u32(self, value: u32) -> Result<(), Unsupported> {
        self.serialize_u64(value.into())
    }

    fn serialize_u16(self, value: u16) -> Result<(), Unsupported> {
        self.serialize_u64(value.into())
    }

    fn serialize_u8(self, value: u8) -> Result<(), Unsupported> {
        self.serialize_u64(value.into())
    }

    fn serialize_i64(self, value: i64) -> Result<(), Unsupported> {
        self.number(value);
        Ok(())
    }

    fn serialize_i32(self, value: i32) -> Result<(), Unsupported> {
        self.serialize_i64(value.into())
    }

    #[inline]
    fn serialize_str(self, value: &str) -> Result<(), Unsupported> {
        self.text(value);
        Ok(())
    }

    #[inline]
    fn serialize_none(self) -> Result<(), Unsupported> {
        self.bytes.extend_from_slice(b"null");
        Ok(())
    }

    #[inline]
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Unsupported> {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Unsupported> {
        value.serialize(self)
    }

    #[inline]
    fn serialize_seq(self, _: Option<usize>) -> Result<Members<'w>, Unsupported> {
        Ok(Members::new(self, *b"[]", FieldSet::ALL))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Members<'w>, Unsupported> {
        Ok(Members::new(self, *b"{}", FieldSet::ALL))
    }

    #[inline]
    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Members<'w>, Unsupported> {
        let fields = if name == DECISION { self.fields } else { FieldSet::ALL };
        Ok(Members::new(self, *b"{}", fields))
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<(), Unsupported> {
        Err(Unsupported)
    }

    unsupported! {
        serialize_i8(i8) -> ();
        serialize_i16(i16) -> ();
        serialize_f32(f32) -> ();
        serialize_f64(f64) -> ();
        serialize_char(char) -> ();
        serialize_bytes(&[u8]) -> ();
        serialize_unit() -> ();
        serialize_unit_struct(&'static str) -> ();
        serialize_unit_variant(&'static str, u32, &'static str) -> ();
        serialize_tuple(usize) -> Impossible<(), Unsupported>;
        serialize_tuple_struct(&'static str, usize) -> Impossible<(), Unsupported>;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Impossible<(), Unsupported>;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> Impossible<(), Unsupported>;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use waterclock::store::now_or_never;
    use waterclock::{Charge, HeaderStyle, ManualClock, MemoryStore, Policy, Store, Verb};
    use waterclock_config::{Config, DecisionLine};

    use super::super::field_set::FIELDS;
    use super::*;

    const POLICIES: &str = r#"
[policies."a/b:c"]
limits = ["2/h", { name = "x y", algorithm = "gcra", limit = 1, per = "1h", shadow = true }]
[policies.gap]
limits = [{ algorithm = "min-interval", every = "1s" }]
[policies.units]
limits = [
  { algorithm = "gcra", limit = 3, per = "1h" },
  { name = "tokens", algorithm = "gcra", limit = 9007199254740991, per = "1h", unit = "tokens" },
]
[policies.uniform]
mode = "uniform"
limits = ["1/h sliding-window"]
"#;

    fn with_decisions(mut each: impl FnMut(&DecisionLine<'_>)) {
        let config = Config::read("test.toml", POLICIES).unwrap();
        let clock = ManualClock::default();
        let store = MemoryStore::new(100, clock.clone());
        for policy in &config.policies {
            now_or_never(store.set_policy(Policy::clone(policy.policy()))).unwrap().unwrap();
            for key in ["", "plain", "a\"b\\c\n\u{1}\u{7f}é\u{2028}😀"] {
                for cost in [0, 1, 4] {
                    let cost = policy.policy().requests(cost);
                    let charge = Charge::new(policy.name(), key.as_bytes(), cost.clone());
                    let answers = now_or_never(store.apply(Verb::Check, &[charge])).unwrap();
                    let answer = &answers.unwrap()[0];
                    let line =
                        DecisionLine::in_full(policy.name(), policy.policy(), key, &cost, answer);
                    let style = [HeaderStyle::Ietf, HeaderStyle::Legacy][key.len() % 2];
                    each(&line.in_style(style, policy.policy(), &answer.decision));
                    clock.advance(std::time::Duration::from_nanos(1_234_567));
                }
            }
        }
    }

    #[test]
    fn what_serde_json_writes() {
        let mut decisions = 0;
        with_decisions(|line| {
            let (short, long) = (write(line, FieldSet::ALL, 1), serde_json::to_vec(line).unwrap());
            assert_eq!(str::from_utf8(&short), str::from_utf8(&long));
            decisions += 1;
        });
        assert_eq!(decisions, 36);
        // What decisions do not contain is written all the same.
        for odd in [json!({ "a": [1.5, null, -3, {}], "": [] }), json!("\u{0}"), json!(u64::MAX)] {
            assert_eq!(write(&odd, FieldSet::ALL, 1), odd.to_string().into_bytes());
        }
    }

    #[test]
    fn an_escape_is_found_wherever_it_is() {
        let odd = (0..=u8::MAX).map(char::from).chain(['\u{2028}', '😀']);
        for (odd, length) in odd.flat_map(|odd| (0..=17).map(move |length| (odd, length))) {
            for at in 0..=length {
                let (before, after) = ("~".repeat(at), "!".repeat(length - at));
                let text = format!("{before}{odd}{after}");
                let written = write(&text, FieldSet::ALL, 1);
                assert_eq!(written, serde_json::to_vec(&text).unwrap());
            }
        }
    }

    #[test]
    fn every_field_has_a_name() {
        with_decisions(|line| {
            let whole: Value = serde_json::to_value(line).unwrap();
            for (name, value) in whole.as_object().unwrap() {
                let fields = FieldSet::parse(name).unwrap();
                let one: Value = serde_json::from_slice(&write(line, fields, 1)).unwrap();
                assert_eq!(one, json!({ name: value }));
            }
            let all = FieldSet::parse(&FIELDS.join(",")).unwrap();
            assert_eq!(write(line, all, 1), write(line, FieldSet::ALL, 1));
        });
        assert_eq!(FieldSet::parse("key,Key"), Err("Key"));
    }

    #[test]
    fn objects_are_joined() {
        for (first, second, both) in [
            (r#"{"a":1}"#, r#"{"b":2}"#, r#"{"a":1,"b":2}"#),
            (r#"{"a":1}"#, "{}", r#"{"a":1}"#),
            ("{}", r#"{"b":2}"#, r#"{"b":2}"#),
        ] {
            assert_eq!(join(first.into(), second.as_bytes()), both.as_bytes());
        }
    }
}
