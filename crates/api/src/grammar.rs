//! What users write: the grammars behind the rules, in code. Each has its CEL twin in [`crate::rules`]; the fixtures run both.

/// A DNS label: letters, digits and dashes, neither end a dash.
pub(crate) fn is_dns_label(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !text.is_empty()
        && text.len() <= 63
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// A name that a Service can have: a DNS label that starts with a letter.
pub(crate) fn is_service_name(text: &str) -> bool {
    is_dns_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase())
}

/// The name of a Secret or of a similar object: DNS labels, joined by dots.
pub(crate) fn is_object_name(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns_label)
}

/// What follows `.svc` in a member's host name: nothing, or a dot and a domain.
pub(crate) fn is_cluster_domain(text: &str) -> bool {
    text.is_empty() || text.strip_prefix('.').is_some_and(is_object_name)
}

/// The key of a label or an annotation: a name of at most 63 characters, with an optional domain before a slash.
pub(crate) fn is_label_key(key: &str) -> bool {
    let (domain, name) = match key.split_once('/') {
        Some((domain, name)) => (Some(domain), name),
        None => (None, key),
    };
    !name.is_empty() && is_label_value(name) && domain.is_none_or(is_object_name)
}

/// The value of a label.
pub(crate) fn is_label_value(value: &str) -> bool {
    let edge = |c: char| c.is_ascii_alphanumeric();
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    value.is_empty()
        || (value.len() <= 63 && value.starts_with(edge) && value.ends_with(edge) && value.bytes().all(inner))
}

/// An image's name without tag and digest: an optional registry (the only part with a colon), then path components.
pub(crate) fn is_repository(text: &str) -> bool {
    let (registry, path) = match text.split_once('/') {
        Some((first, rest)) if is_registry(first) => (Some(first), rest),
        _ => (None, text),
    };
    text.len() <= 255
        && !text.contains("..")
        && registry.is_none_or(is_registry)
        && path.split('/').all(is_image_component)
}

fn is_registry(text: &str) -> bool {
    let (host, port) = match text.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    };
    is_host(host) && port.is_none_or(is_port)
}

fn is_host(host: &str) -> bool {
    let edge = |c: char| c.is_ascii_alphanumeric();
    host.starts_with(edge)
        && host.ends_with(edge)
        && host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.'))
}

fn is_port(port: &str) -> bool {
    (1..=5).contains(&port.len()) && port.bytes().all(|b| b.is_ascii_digit())
}

fn is_image_component(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_' | b'.');
    text.starts_with(edge) && text.ends_with(edge) && text.bytes().all(inner)
}

/// A whole image reference, tag or digest included. The kubelet is the judge; this only keeps out what is no reference at all.
pub(crate) fn is_image(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':' | b'/' | b'@');
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.bytes().all(inner)
}

/// A URL, with or without a scheme, that names a server and nothing else: no user, path, query or fragment.
pub(crate) fn is_endpoint(text: &str) -> bool {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://")).unwrap_or(text);
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if let Some(bracketed) = rest.strip_prefix('[') {
        let Some((address, port)) = bracketed.split_once(']') else {
            return false;
        };
        let hex = |b: u8| b.is_ascii_hexdigit() || matches!(b, b':' | b'.');
        return !address.is_empty()
            && address.bytes().all(hex)
            && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port));
    }
    is_registry(rest)
}

/// `<bucket>/<key>`: both there, characters that every object store takes as they are, no dot segments.
pub(crate) fn is_object_path(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b"/!_.*'()+=:@,-".contains(&b);
    let Some((bucket, key)) = text.split_once('/') else {
        return false;
    };
    !bucket.is_empty()
        && !key.is_empty()
        && text.bytes().all(inner)
        && !text.split('/').any(|segment| segment == "." || segment == "..")
}

/// An environment variable's name.
pub(crate) fn is_env_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
