//! Rules in a file: what they say, and what is wrong with them.

use serde_json::json;

use crate::support::{Place, Run};

const POLICIES: &str = "[policies.login]\nlimits = [\"100/m\"]\n[policies.own]\nkey = [\"user\"]\nlimits = [\"100/m\"]\n";

/// One rule after two policies; it begins in line 6.
fn validate(rule: &str) -> Run {
    Place::with_config(&format!("{POLICIES}{rule}")).run(&["validate"])
}

#[test]
fn a_policy_of_several_units_counts_requests_too() {
    let several = |first: &str| {
        let limits = format!(
            "[{first}, {{ algorithm = \"gcra\", limit = 1, per = \"1s\", unit = \"tokens\" }}]"
        );
        let rule = "[[rules]]\ndomain = \"d\"\ndescriptor = [{ key = \"a\" }]\npolicy = \"llm\"\n";
        Place::with_config(&format!("[policies.llm]\nlimits = {limits}\n{rule}")).run(&["validate"])
    };
    assert_eq!(several("\"1/s\"").code, Some(0));
    let run = several(
        "{ algorithm = \"gcra\", limit = 1, per = \"1s\", name = \"b\", unit = \"bytes\" }",
    );
    assert_eq!(
        run.stderr.trim_end(),
        "waterclock.toml:3:1: `llm` counts several units, none of them requests; set `unit` to the one that Envoy's hits are"
    );
}

#[test]
fn mistakes() {
    let cases = [
        (
            "[[rules]]\ndescriptor = [{ key = \"a\" }]\npolicy = \"login\"",
            "6:1: a rule needs `domain`, such as \"edge\"",
        ),
        (
            "[[rules]]\ndomain = \"d\"\npolicy = \"login\"",
            "6:1: a rule needs `descriptor`, such as [{ key = \"remote_address\" }]",
        ),
        (
            "[[rules]]\ndomain = \"d\"\ndescriptor = [{ key = \"a\" }]",
            "6:1: a rule needs `policy`, such as \"login\", or `unlimited = true`, or `refuse = true`",
        ),
        (
            "[[rules]]\ndomain = \"d\"\ndescriptor = [{ key = \"a\" }]\npolicy = \"login\"\nunlimited = true",
            "6:1: a rule has one of `policy`, `unlimited` and `refuse`; found `policy` and `unlimited`",
        ),
        (
            "[[rules]]\ndomain = \"d\"\ndescriptor = [{ key = \"a\" }]\npolicy = \"logn\"",
            "9:10: `policy` names `logn`, which is not a policy of this file; did you mean `login`?",
        ),
        (
            "[[rules]]\ndomain = \"d\"\ndescriptor = []\npolicy = \"login\"",
            "8:14: `descriptor` must hold 1 to 64 entries; found 0",
        ),
        (
            "[[rules]]\ndomain = \"\"\ndescriptor = [{ key = \"a\" }]\npolicy = \"login\"",
            "7:10: `domain` must not be empty",
        ),
        (
            "[[rules]]\ndomain = \"d\"\ndescriptor = [{ value = \"a\" }]\npolicy = \"login\"",
            "8:15: an entry needs `key`, such as \"remote_address\"",
        ),
        (
            "[[rules]]\ndomain = \"d\"\ndescriptor = [{ key = \"a\", vlaue = \"b\" }]\npolicy = \"login\"",
            "8:28: unknown key `vlaue` in `descriptor`; did you mean `value`?",
        ),
        (
            "[[rules]]\ndomian = \"d\"\ndescriptor = [{ key = \"a\" }]\npolicy = \"login\"",
            "7:1: unknown key `domian` in a rule; did you mean `domain`?",
        ),
        (
            "[[rules]]\ndomain = \"d\"\ndescriptor = [{ key = \"user\" }]\npolicy = \"login\"\nkey = [\"usr\"]",
            "10:8: `key` names `usr`, which is not an entry of the descriptor; did you mean `user`?",
        ),
        (
            "[[rules]]\ndomain = \"d\"\ndescriptor = [{ key = \"a\" }]\npolicy = \"own\"",
            "6:1: policy `own` forms its key from `user`, which is not an entry of the descriptor",
        ),
        (
            "[[rules]]\ndomain = \"d\"\ndescriptor = [{ key = \"user\" }]\npolicy = \"own\"\nkey = [\"user\"]",
            "10:7: `key` cannot be used with policy `own`, which forms its own key from `user`",
        ),
        (
            "[[rules]]\ndomain = \"d\"\ndescriptor = [{ key = \"a\" }]\nunlimited = true\n\
             [[rules]]\ndomain = \"d\"\ndescriptor = [{ key = \"a\" }]\npolicy = \"login\"",
            "10:1: two rules of the domain `d` have the same descriptor; remove one of them",
        ),
        ("[rules]\ndomain = \"d\"", "6:1: `rules` must be an array; write [{ … }]"),
    ];
    for (rule, expected) in cases {
        let run = validate(rule);
        let first = run.stderr.lines().next().unwrap_or_default();
        assert_eq!(run.code, Some(2), "{rule}\n{}", run.stderr);
        assert_eq!(first.strip_prefix("waterclock.toml:").unwrap_or(first), expected, "{rule}");
    }
    let long = "x".repeat(1_025);
    let run = validate(&format!(
        "[[rules]]\ndomain = \"d\"\ndescriptor = [{{ key = \"a\", value = \"{long}\" }}]\npolicy = \"login\""
    ));
    assert!(run.stderr.contains("`value` must be at most 1024 bytes long; found 1025"));
}

#[test]
fn charges_that_cannot_work() {
    let policies = "[policies.llm]\nlimits = [\"9/s\", { name = \"t\", algorithm = \"gcra\", limit = 9, per = \"1s\", unit = \"tokens\" }]\n\
                    [policies.calm]\nlimits = [{ algorithm = \"min-interval\", every = \"1s\" }]\n\
                    [policies.count]\nmode = \"uniform\"\nlimits = [\"9/s rolling-window\"]\n";
    // Its third line is the tenth.
    let validate = |rest: &str| {
        let rule = format!("[[rules]]\ndomain = \"d\"\ndescriptor = [{{ key = \"a\" }}]\n{rest}\n");
        Place::with_config(&format!("{policies}{rule}")).run(&["validate"])
    };
    for (rest, expected) in [
        (
            "policy = \"llm\"\ncharge = \"debt\"",
            "12:10: `charge` must be `check`, `debit` or `count`; found \"debt\"; did you mean `debit`?",
        ),
        (
            "unlimited = true\ncharge = \"debit\"",
            "12:10: `charge` goes with `policy`; this rule has none",
        ),
        ("refuse = true\nunit = \"tokens\"", "12:8: `unit` goes with `policy`; this rule has none"),
        (
            "policy = \"llm\"\nunit = \"token\"",
            "12:8: `unit` names `token`, and policy `llm` counts `requests` and `tokens`; did you mean `tokens`?",
        ),
        (
            "policy = \"llm\"\ncharge = \"count\"",
            "12:10: `charge` is \"count\", which counts refused requests, too; set `mode = \"uniform\"` in policy `llm`",
        ),
        (
            "policy = \"calm\"\ncharge = \"debit\"",
            "12:10: `charge` is \"debit\", and policy `calm` has no limit that a debit changes; gaps, slots, error rates and concurrency count events",
        ),
    ] {
        let run = validate(rest);
        let first = run.stderr.lines().next().unwrap_or_default();
        assert_eq!(run.code, Some(2), "{rest}\n{}", run.stderr);
        assert_eq!(first.strip_prefix("waterclock.toml:").unwrap_or(first), expected, "{rest}");
    }
    let debit = validate("policy = \"llm\"\ncharge = \"debit\"\nunit = \"tokens\"").ok();
    let sentence = "one budget for each a. Hits are tokens. Hits are charged whatever is left, into debt if necessary.";
    assert!(debit.stdout.contains(sentence), "{}", debit.stdout);
    let count = validate("policy = \"count\"\ncharge = \"count\"").ok();
    assert!(
        count.stdout.contains("Each is counted on its own, refused or not."),
        "{}",
        count.stdout
    );
}

#[test]
fn in_plain_english() {
    let rules = "\
[[rules]]\ndomain = \"edge\"\npolicy = \"login\"\ndescriptor = [{ key = \"address\" }, { key = \"path\", value = \"/login*\" }]\n\
[[rules]]\ndomain = \"edge\"\npolicy = \"login\"\ndescriptor = [{ key = \"address\", value = \"::1\" }]\nkey = []\nname = \"here\"\n\
[[rules]]\ndomain = \"edge\"\npolicy = \"own\"\ndescriptor = [{ key = \"user\" }, { key = \"x\" }]\nreplaces = [\"here\"]\n\
[[rules]]\ndomain = \"edge\"\nunlimited = true\ndescriptor = [{ key = \"x\" }]\n\
[[rules]]\ndomain = \"edge\"\nrefuse = true\ndescriptor = [{ key = \"y\" }]\n";
    let run = validate(rules).ok();
    for sentence in [
        "rule edge: descriptors of any `address`, then `path` beginning with \"/login\" go to policy login, one budget for each address and path.",
        "rule edge: descriptors of `address` \"::1\" go to policy login, with one budget for all of them. Its name is here.",
        "rule edge: descriptors of any `user`, then any `x` go to policy own, one budget for each user. If it matches, here does not apply.",
        "rule edge: descriptors of any `x` are not limited.",
        "rule edge: descriptors of any `y` are always refused.",
    ] {
        assert!(run.stdout.contains(sentence), "{sentence}\n{}", run.stdout);
    }
}

#[test]
fn surprises() {
    let rule = |entries: &str, rest: &str| {
        format!("[[rules]]\ndomain = \"d\"\npolicy = \"login\"\ndescriptor = [{entries}]\n{rest}")
    };
    let cases = [
        (
            rule("{ key = \"a\" }", "") + &rule("{ key = \"a\", value = \"*\" }", ""),
            "warning: rule d [a] can never match: d [a=\"*\"] is more specific and matches the same descriptors\n",
        ),
        (
            rule("{ key = \"a\" }", "replaces = [\"b\"]"),
            "warning: rule d [a] replaces `b`, but no rule has that name\n",
        ),
        (
            rule("{ key = \"a\", value = \"x*y\" }", ""),
            "warning: rule d [a=\"x*y\"]: the `*` in \"x*y\" is not a wildcard; only one at the end is\n",
        ),
        (rule("{ key = \"a\" }", "") + &rule("{ key = \"a\", value = \"b*\" }", ""), ""),
    ];
    for (rules, expected) in cases {
        let run = validate(&rules);
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), expected), "{rules}");
    }
}

#[test]
fn the_schema_knows_them() {
    let schema = Place::new().run(&["schema"]).json();
    let rule = &schema["properties"]["rules"]["items"];
    assert_eq!(rule["required"], json!(["domain", "descriptor"]));
    let entry = &rule["properties"]["descriptor"]["items"];
    assert_eq!(entry["required"], json!(["key"]));
    assert_eq!(entry["additionalProperties"], false);
}
