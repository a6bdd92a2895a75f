//! FAKES: what is asked of the API server.

use http::Method;
use serde_json::Value;

use super::kinds::Kind;

/// A request.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The verb.
    pub method: Method,
    /// The path.
    pub path: String,
    /// The parameters.
    pub query: String,
    /// What is accepted as an answer.
    pub accept: String,
    /// What kind of body it has.
    pub content: String,
    /// The body.
    pub body: Value,
}

/// What a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The kind.
    pub kind: Kind,
    /// The namespace; empty for all of them.
    pub namespace: String,
    /// The object; empty for all of them.
    pub name: String,
    /// The part of it; empty for all of it.
    pub part: String,
}

impl Asked {
    /// A parameter.
    #[must_use]
    pub fn parameter(&self, key: &str) -> Option<String> {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.filter(|(name, _)| *name == key).map(|(_, value)| unescaped(value)).next()
    }

    /// Whether a parameter is on.
    #[must_use]
    pub fn is_on(&self, key: &str) -> bool {
        self.parameter(key).is_some_and(|value| value == "true")
    }

    /// What the path names, if the API server has it.
    #[must_use]
    pub fn target(&self) -> Option<Target> {
        let words: Vec<&str> = self.path.split('/').filter(|word| !word.is_empty()).collect();
        let (group, version, rest) = match words.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] => (*namespace, rest),
            rest => ("", rest),
        };
        let (plural, name, part) = match rest {
            [plural] => (*plural, "", ""),
            [plural, name] => (*plural, *name, ""),
            [plural, name, part] => (*plural, *name, *part),
            _ => return None,
        };
        let kind = Kind::of(group, version, plural)?;
        let own = |text: &str| text.to_owned();
        Some(Target { kind, namespace: own(namespace), name: own(name), part: own(part) })
    }

    /// Whether it changes something.
    #[must_use]
    pub fn is_write(&self) -> bool {
        self.method != Method::GET
    }

    /// Who writes, for the record of who wrote which field.
    #[must_use]
    pub fn manager(&self) -> String {
        self.parameter("fieldManager").unwrap_or_else(|| "unknown".to_owned())
    }
}

fn unescaped(text: &str) -> String {
    let mut bytes = text.bytes();
    let mut out = Vec::new();
    while let Some(byte) = bytes.next() {
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let digits: Vec<u8> = bytes.by_ref().take(2).collect();
                let text = String::from_utf8_lossy(&digits).into_owned();
                out.push(u8::from_str_radix(&text, 16).unwrap_or(b'?'));
            }
            other => out.push(other),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Whether labels fit a selector: `key=value` and `key`, separated by commas.
#[must_use]
pub fn selects(selector: Option<&str>, object: &Value) -> bool {
    let Some(selector) = selector.filter(|text| !text.is_empty()) else { return true };
    selector.split(',').all(|term| match term.split_once('=') {
        Some((key, value)) => {
            object["metadata"]["labels"][key.trim_end_matches('=')] == value.trim_start_matches('=')
        }
        None => object["metadata"]["labels"].get(term).is_some(),
    })
}
