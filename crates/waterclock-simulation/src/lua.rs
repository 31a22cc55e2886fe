//! The scripts, in the version of Lua that Redis has, with the libraries of Redis that they use.

use std::cell::RefCell;
use std::collections::HashMap;

use mlua::{Function, Lua, LuaOptions, MultiValue, StdLib, Table, Value};

use crate::keyspace::Keyspace;
use crate::resp::Reply;

/// What the script that runs may touch.
struct Running {
    keyspace: Keyspace,
    now_us: u64,
    keys: Vec<Vec<u8>>,
}

struct Machine {
    lua: Lua,
    /// Compiled scripts, by their text.
    compiled: HashMap<String, Function>,
}

thread_local! {
    static RUNNING: RefCell<Option<Running>> = const { RefCell::new(None) };
    static MACHINE: RefCell<Option<Machine>> = const { RefCell::new(None) };
}

/// Runs a script at an instant of the server's clock. What it calls sees that instant all the time.
pub fn run(
    source: &str,
    keyspace: &mut Keyspace,
    now_us: u64,
    keys: &[Vec<u8>],
    args: &[Vec<u8>],
) -> Reply {
    MACHINE.with_borrow_mut(|machine| {
        let machine = machine.get_or_insert_with(|| {
            let lua = machine_of_redis().expect("the libraries of Redis");
            Machine { lua, compiled: HashMap::new() }
        });
        let function = match machine.compiled.get(source) {
            Some(function) => function.clone(),
            None => {
                // Redis reads the first line.
                let text = source.replacen("#!", "--", 1);
                let function = match machine.lua.load(text).set_name("=user_script").into_function()
                {
                    Ok(function) => function,
                    Err(error) => {
                        return Reply::Error(format!("ERR Error compiling script: {error}"));
                    }
                };
                machine.compiled.insert(source.to_owned(), function.clone());
                function
            }
        };
        let running = Running { keyspace: std::mem::take(keyspace), now_us, keys: keys.to_vec() };
        RUNNING.set(Some(running));
        let result = call(&machine.lua, &function, keys, args);
        *keyspace = RUNNING.take().expect("the script that ran").keyspace;
        result.unwrap_or_else(|error| Reply::Error(one_line(&error)))
    })
}

fn call(lua: &Lua, function: &Function, keys: &[Vec<u8>], args: &[Vec<u8>]) -> mlua::Result<Reply> {
    let list = |all: &[Vec<u8>]| -> mlua::Result<Table> {
        let table = lua.create_table_with_capacity(all.len(), 0)?;
        for (i, one) in all.iter().enumerate() {
            table.raw_set(i + 1, lua.create_string(one)?)?;
        }
        Ok(table)
    };
    lua.globals().raw_set("KEYS", list(keys)?)?;
    lua.globals().raw_set("ARGV", list(args)?)?;
    // A table that a command raised is passed through as it is.
    let wrapped: Function = lua.named_registry_value("guarded")?;
    let result: Value = wrapped.call(function)?;
    to_reply(&result)
}

/// The first line of an error, as Redis replies it.
fn one_line(error: &mlua::Error) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("runtime error: ").unwrap_or(&text);
    let line = text.lines().next().unwrap_or_default();
    format!("ERR {line}")
}

fn machine_of_redis() -> mlua::Result<Lua> {
    let lua = Lua::new_with(StdLib::TABLE | StdLib::STRING | StdLib::MATH, LuaOptions::default())?;
    let redis = lua.create_table()?;
    let raw = lua.create_function(|lua, words: MultiValue| {
        let words: Vec<Vec<u8>> = words.iter().map(word).collect::<mlua::Result<_>>()?;
        let answer = RUNNING.with_borrow_mut(|running| {
            let running = running.as_mut().expect("a script that runs");
            let is_declared = |key: &Vec<u8>| running.keys.contains(key);
            if words.get(1).is_some_and(|key| !is_declared(key)) {
                return Err("ERR Script attempted to access a non local key".to_owned());
            }
            running.keyspace.call(running.now_us, &words)
        });
        match answer {
            Ok(reply) => Ok((true, to_lua(lua, &reply)?)),
            Err(error) => {
                let table = lua.create_table()?;
                table.raw_set("err", error)?;
                Ok((false, Value::Table(table)))
            }
        }
    })?;
    lua.globals().set("redis", &redis)?;
    let structs = lua.create_table()?;
    structs.set("pack", lua.create_function(crate::structs::pack)?)?;
    structs.set("unpack", lua.create_function(crate::structs::unpack)?)?;
    lua.globals().set("struct", structs)?;
    let prelude = "local raw, redis, error = ...
        function redis.call(...)
          local ok, reply = raw(...)
          if not ok then error(reply) end
          return reply
        end
        function redis.pcall(...)
          local _, reply = raw(...)
          return reply
        end
        local pcall, type, tostring = pcall, type, tostring
        return function(script)
          local ok, reply = pcall(script)
          if ok then return reply end
          if type(reply) == 'table' then return reply end
          return {err = 'ERR ' .. tostring(reply) .. ' script'}
        end";
    let error: Function = lua.globals().get("error")?;
    let guarded: Function = lua.load(prelude).call((raw, redis, error))?;
    lua.set_named_registry_value("guarded", guarded)?;
    Ok(lua)
}

/// An argument of a command.
fn word(value: &Value) -> mlua::Result<Vec<u8>> {
    match value {
        Value::String(text) => Ok(text.as_bytes().to_vec()),
        Value::Integer(n) => Ok(n.to_string().into_bytes()),
        Value::Number(n) if n.fract() == 0.0 && n.abs() < 1e17 => {
            Ok(format!("{n:.0}").into_bytes())
        }
        Value::Number(n) => Ok(format!("{n}").into_bytes()),
        _ => Err(mlua::Error::runtime(
            "ERR Lua redis lib command arguments must be strings or integers",
        )),
    }
}

fn to_lua(lua: &Lua, reply: &Reply) -> mlua::Result<Value> {
    Ok(match reply {
        Reply::Int(n) => Value::Integer(*n),
        Reply::Bulk(bytes) => Value::String(lua.create_string(bytes)?),
        Reply::Nil => Value::Boolean(false),
        Reply::Status(text) => {
            let table = lua.create_table()?;
            table.raw_set("ok", text.as_str())?;
            Value::Table(table)
        }
        Reply::Error(text) => {
            let table = lua.create_table()?;
            table.raw_set("err", text.as_str())?;
            Value::Table(table)
        }
        Reply::Array(all) | Reply::Map(all) | Reply::Push(all) => {
            let table = lua.create_table_with_capacity(all.len(), 0)?;
            for (i, one) in all.iter().enumerate() {
                table.raw_set(i + 1, to_lua(lua, one)?)?;
            }
            Value::Table(table)
        }
    })
}

fn to_reply(value: &Value) -> mlua::Result<Reply> {
    Ok(match value {
        Value::Integer(n) => Reply::Int(*n),
        #[expect(clippy::cast_possible_truncation, reason = "as Redis does")]
        Value::Number(n) => Reply::Int(*n as i64),
        Value::String(text) => Reply::Bulk(text.as_bytes().to_vec()),
        Value::Boolean(true) => Reply::Int(1),
        Value::Table(table) => {
            if let Ok(Some(text)) = table.raw_get::<Option<String>>("err") {
                let has_code = text.split(' ').next().is_some_and(|code| {
                    !code.is_empty() && code.bytes().all(|byte| byte.is_ascii_uppercase())
                });
                return Ok(Reply::Error(if has_code { text } else { format!("ERR {text}") }));
            }
            if let Ok(Some(text)) = table.raw_get::<Option<String>>("ok") {
                return Ok(Reply::Status(text));
            }
            let mut all = Vec::new();
            for i in 1.. {
                match table.raw_get::<Value>(i)? {
                    Value::Nil => break,
                    one => all.push(to_reply(&one)?),
                }
            }
            Reply::Array(all)
        }
        _ => Reply::Nil,
    })
}
