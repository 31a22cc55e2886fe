//! What a server keeps: the types and commands that the scripts use.

use std::collections::BTreeMap;

use crate::resp::Reply;

/// Of a hash.
type Fields = BTreeMap<Vec<u8>, Vec<u8>>;

/// Keys and their values.
#[derive(Clone, Debug, Default)]
pub struct Keyspace {
    entries: BTreeMap<Vec<u8>, Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    value: Value,
    expires_ms: Option<u64>,
}

impl Entry {
    fn is_over(&self, now_ms: u64) -> bool {
        self.expires_ms.is_some_and(|until| now_ms > until)
    }
}

#[derive(Clone, Debug)]
enum Value {
    Text(Vec<u8>),
    Hash(Fields),
    Sorted(BTreeMap<Vec<u8>, f64>),
}

type Answer = Result<Reply, String>;

fn wrong_type<T>() -> Result<T, String> {
    Err("WRONGTYPE Operation against a key holding the wrong kind of value".into())
}

fn number(bytes: &[u8]) -> Result<i64, String> {
    let parsed = std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| "ERR value is not an integer or out of range".into())
}

/// The part of `length` bytes that two indexes name, of which negative ones count from the end.
fn range(length: usize, first: i64, last: i64) -> std::ops::Range<usize> {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let at = |index: i64| if index < 0 { (length + index).max(0) } else { index };
    let (first, last) = (at(first), at(last).min(length - 1));
    let index = |n: i64| usize::try_from(n).unwrap_or(0);
    if first > last { 0..0 } else { index(first)..index(last + 1) }
}

impl Keyspace {
    /// Runs a command at an instant of the server's clock.
    ///
    /// # Errors
    ///
    /// The text of an error reply.
    pub fn call(&mut self, now_us: u64, words: &[Vec<u8>]) -> Answer {
        let name = words.first().map(|name| name.to_ascii_uppercase()).unwrap_or_default();
        let args = words.get(1..).unwrap_or_default();
        let now_ms = now_us / 1_000;
        for key in args.iter().take(if name == b"MGET" || name == b"DEL" { args.len() } else { 1 })
        {
            self.expire(now_ms, key);
        }
        let [key, rest @ ..] = args else {
            return match &*name {
                b"TIME" => Ok(Reply::Array(vec![
                    Reply::text((now_us / 1_000_000).to_string()),
                    Reply::text((now_us % 1_000_000).to_string()),
                ])),
                _ => Err("ERR wrong number of arguments".into()),
            };
        };
        let flag = |is: bool| Ok(Reply::Int(i64::from(is)));
        match (&*name, rest) {
            (b"GET", []) => self.text(key).map(|text| text.map_or(Reply::Nil, Reply::text)),
            (b"MGET", _) => {
                let each = args.iter().map(|key| match self.text(key) {
                    Ok(Some(text)) => Reply::text(text),
                    _ => Reply::Nil,
                });
                Ok(Reply::Array(each.collect()))
            }
            (b"SET", [value, options @ ..]) => self.set(now_ms, key, value, options),
            (b"DEL", _) => {
                let gone = args.iter().filter(|key| self.entries.remove(*key).is_some()).count();
                Ok(Reply::Int(i64::try_from(gone).unwrap_or(0)))
            }
            (b"GETRANGE", [first, last]) => {
                let text = self.text(key)?.unwrap_or_default();
                let part = range(text.len(), number(first)?, number(last)?);
                Ok(Reply::text(&text[part]))
            }
            (b"SETRANGE", [at, value]) => {
                let at = usize::try_from(number(at)?).map_err(|_| "ERR offset is out of range")?;
                let mut text = self.text(key)?.unwrap_or_default();
                if !value.is_empty() {
                    text.resize(text.len().max(at + value.len()), 0);
                    text[at..at + value.len()].copy_from_slice(value);
                    let length = text.len();
                    self.entry(key, Value::Text(Vec::new())).value = Value::Text(text);
                    return Ok(Reply::Int(i64::try_from(length).unwrap_or(0)));
                }
                Ok(Reply::Int(i64::try_from(text.len()).unwrap_or(0)))
            }
            (b"PEXPIRE", [ms]) => {
                let until = now_ms.saturating_add_signed(number(ms)?);
                flag(
                    self.entries.get_mut(key).map(|entry| entry.expires_ms = Some(until)).is_some(),
                )
            }
            (b"PERSIST", []) => {
                let entry = self.entries.get_mut(key);
                flag(entry.is_some_and(|entry| entry.expires_ms.take().is_some()))
            }
            (b"HGET", [field]) => {
                let found = self.hash(key)?.and_then(|hash| hash.get(field).cloned());
                Ok(found.map_or(Reply::Nil, Reply::Bulk))
            }
            (b"HSET", pairs) if !pairs.is_empty() && pairs.len().is_multiple_of(2) => {
                self.hash(key)?;
                let entry = self.entry(key, Value::Hash(BTreeMap::new()));
                let Value::Hash(hash) = &mut entry.value else { return wrong_type() };
                let mut added = 0;
                for pair in pairs.chunks_exact(2) {
                    added += i64::from(hash.insert(pair[0].clone(), pair[1].clone()).is_none());
                }
                Ok(Reply::Int(added))
            }
            (b"HDEL", fields) => {
                let Some(hash) = self.hash(key)? else { return Ok(Reply::Int(0)) };
                let gone = fields.iter().filter(|field| hash.remove(*field).is_some()).count();
                if hash.is_empty() {
                    self.entries.remove(key);
                }
                Ok(Reply::Int(i64::try_from(gone).unwrap_or(0)))
            }
            (b"HKEYS", []) => {
                let keys =
                    self.hash(key)?.map(|hash| hash.keys().cloned().map(Reply::Bulk).collect());
                Ok(Reply::Array(keys.unwrap_or_default()))
            }
            (b"ZADD" | b"ZCARD" | b"ZREM" | b"ZRANGE", _) => self.sorted(&name, key, rest),
            _ => Err(format!("ERR unknown command '{}'", String::from_utf8_lossy(&name))),
        }
    }

    fn set(&mut self, now_ms: u64, key: &[u8], value: &[u8], options: &[Vec<u8>]) -> Answer {
        let before = self.entries.get(key);
        let mut expires_ms = None;
        let mut options = options.iter();
        while let Some(option) = options.next() {
            let mut argument =
                || options.next().map_or(Err("ERR syntax error".into()), |n| number(n));
            match &*option.to_ascii_uppercase() {
                b"PX" => match argument()? {
                    ms @ 1.. => expires_ms = Some(now_ms.saturating_add_signed(ms)),
                    _ => return Err("ERR invalid expire time in 'set' command".into()),
                },
                b"PXAT" => expires_ms = u64::try_from(argument()?).ok(),
                b"KEEPTTL" => expires_ms = before.and_then(|entry| entry.expires_ms),
                b"NX" if before.is_some() => return Ok(Reply::Nil),
                b"NX" => {}
                _ => return Err("ERR syntax error".into()),
            }
        }
        let entry = Entry { value: Value::Text(value.to_vec()), expires_ms };
        self.entries.insert(key.to_vec(), entry);
        Ok(Reply::ok())
    }

    fn sorted(&mut self, name: &[u8], key: &[u8], rest: &[Vec<u8>]) -> Answer {
        let entry = self.entries.get_mut(key);
        let known = match entry.map(|entry| &mut entry.value) {
            Some(Value::Sorted(sorted)) => Some(sorted),
            Some(_) => return wrong_type(),
            None => None,
        };
        let score = |text: &[u8]| -> Result<f64, String> {
            let parsed = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
            parsed.ok_or_else(|| "ERR value is not a valid float".into())
        };
        let count = |n: usize| Ok(Reply::Int(i64::try_from(n).unwrap_or(0)));
        match (name, rest) {
            (b"ZCARD", []) => count(known.map_or(0, |sorted| sorted.len())),
            (b"ZREM", names) => {
                let Some(sorted) = known else { return count(0) };
                let gone = names.iter().filter(|name| sorted.remove(*name).is_some()).count();
                if sorted.is_empty() {
                    self.entries.remove(key);
                }
                count(gone)
            }
            (b"ZADD", [number, name]) => {
                let number = score(number)?;
                let entry = self.entry(key, Value::Sorted(BTreeMap::new()));
                let Value::Sorted(sorted) = &mut entry.value else { return wrong_type() };
                count(usize::from(sorted.insert(name.clone(), number).is_none()))
            }
            (b"ZRANGE", [first, last, options @ ..]) => {
                let mut all: Vec<(Vec<u8>, f64)> = known
                    .map_or(Vec::new(), |all| all.iter().map(|(n, s)| (n.clone(), *s)).collect());
                all.sort_by(|a, b| a.1.total_cmp(&b.1).then_with(|| a.0.cmp(&b.0)));
                if options.first().is_some_and(|option| option == b"BYSCORE") {
                    let Some(above) = first.strip_prefix(b"(") else {
                        return Err("ERR syntax error".into());
                    };
                    let above = score(above)?;
                    all.retain(|(_, score)| *score > above);
                    let most = options.get(3).map_or(Ok(i64::MAX), |n| number(n))?;
                    all.truncate(usize::try_from(most).unwrap_or(usize::MAX));
                } else {
                    let part = range(all.len(), number(first)?, number(last)?);
                    all = all[part].to_vec();
                }
                let with_scores = options.iter().any(|option| option == b"WITHSCORES");
                let each = all.into_iter().flat_map(|(name, score)| {
                    let score = with_scores.then(|| Reply::text(format!("{score}")));
                    [Some(Reply::Bulk(name)), score].into_iter().flatten()
                });
                Ok(Reply::Array(each.collect()))
            }
            _ => Err("ERR syntax error".into()),
        }
    }

    fn expire(&mut self, now_ms: u64, key: &[u8]) {
        if self.entries.get(key).is_some_and(|entry| entry.is_over(now_ms)) {
            self.entries.remove(key);
        }
    }

    fn entry(&mut self, key: &[u8], new: Value) -> &mut Entry {
        self.entries.entry(key.to_vec()).or_insert(Entry { value: new, expires_ms: None })
    }

    fn text(&self, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
        match self.entries.get(key).map(|entry| &entry.value) {
            Some(Value::Text(text)) => Ok(Some(text.clone())),
            Some(_) => wrong_type(),
            None => Ok(None),
        }
    }

    fn hash(&mut self, key: &[u8]) -> Result<Option<&mut Fields>, String> {
        match self.entries.get_mut(key).map(|entry| &mut entry.value) {
            Some(Value::Hash(hash)) => Ok(Some(hash)),
            Some(_) => wrong_type(),
            None => Ok(None),
        }
    }

    /// Whether a key is there at an instant.
    #[must_use]
    pub fn has(&self, now_us: u64, key: &[u8]) -> bool {
        self.entries.get(key).is_some_and(|entry| !entry.is_over(now_us / 1_000))
    }

    /// Moves one of the keys that this names to another server, whose clock may show another time. False if there is none.
    pub fn move_one(
        &mut self,
        now_us: u64,
        is: impl Fn(&[u8]) -> bool,
        (to, then_us): (&mut Self, u64),
    ) -> bool {
        self.entries.retain(|_, entry| !entry.is_over(now_us / 1_000));
        let Some(key) = self.entries.keys().find(|key| is(key)).cloned() else { return false };
        if let Some(mut entry) = self.entries.remove(&key) {
            let left_ms = |until: u64| until.saturating_sub(now_us / 1_000);
            entry.expires_ms = entry.expires_ms.map(|until| then_us / 1_000 + left_ms(until));
            to.entries.insert(key, entry);
        }
        true
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Every key that is there at an instant, and when it expires.
    pub fn lasting(&self, now_us: u64) -> impl Iterator<Item = (&[u8], Option<u64>)> {
        let now_ms = now_us / 1_000;
        let all = self.entries.iter().map(|(key, entry)| (&**key, entry.expires_ms));
        all.filter(move |(_, until)| until.is_none_or(|until| now_ms <= until))
    }
}
