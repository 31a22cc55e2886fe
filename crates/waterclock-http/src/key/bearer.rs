//! `Authorization: Bearer …`.

use http::HeaderMap;
use http::header::AUTHORIZATION;

/// The token, if that is how the request says who it is. The scheme's name is not case-sensitive.
pub(super) fn token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}
