//! The body of an `application/problem+json` response (RFC 9457).

use std::fmt::{self, Write};

use super::{Reason, Refusal};
use crate::layer::Charged;

/// Where the IETF's draft on rate limit header fields registers this kind of problem.
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

pub(super) fn body(refusal: &Refusal<'_>) -> String {
    let (kind, title) = match refusal.reason {
        Reason::Limited(_) => (QUOTA_EXCEEDED, "The request exceeds a limit"),
        Reason::Key(_) => ("about:blank", "Bad Request"),
        Reason::Store(_) => ("about:blank", "Service Unavailable"),
    };
    let (status, detail) = (refusal.status().as_u16(), refusal.message());
    let detail = JsonString(&detail);
    let mut body =
        format!(r#"{{"type":"{kind}","title":"{title}","status":{status},"detail":{detail}"#);
    if let Reason::Limited(checked) = refusal.reason {
        let mut separator = r#","violated-policies":["#;
        for name in checked.iter().filter(|charged| !charged.is_hidden()).flat_map(violated) {
            // Writing to a String cannot fail.
            let _ = write!(body, "{separator}{}", JsonString(&name));
            separator = ",";
        }
        if separator == "," {
            body.push(']');
        }
    }
    body.push('}');
    body
}

/// `policy.limit` of every limit that refused.
fn violated(charged: &Charged) -> impl Iterator<Item = String> {
    let refused = charged.answer.decision.refused_by();
    charged.policy.names(refused).map(|limit| format!("{}.{limit}", charged.name()))
}

/// A text as JSON. Four fields are all the JSON that this crate writes, so users need no JSON library for it.
struct JsonString<'a>(&'a str);

impl fmt::Display for JsonString<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for character in self.0.chars() {
            match character {
                '"' | '\\' => write!(f, "\\{character}")?,
                '\0'..='\x1f' => write!(f, "\\u{:04x}", u32::from(character))?,
                _ => f.write_char(character)?,
            }
        }
        f.write_char('"')
    }
}

#[cfg(test)]
mod tests {
    use super::JsonString;

    #[test]
    fn strings_are_escaped() {
        assert_eq!(JsonString("a \"b\\ é\n").to_string(), r#""a \"b\\ é\u000a""#);
    }
}
