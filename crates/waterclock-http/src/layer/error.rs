use std::fmt;

use waterclock::StoreError;

/// Why there is no layer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// Without a rule nothing is limited.
    NoRule,
    /// The policy of this name has no key.
    NoKey(String),
    /// The policy's key is the client's address, and nobody said who connections come from.
    NoPeer(String),
    /// The policy's rule has a path that makes no sense.
    Path {
        /// The policy.
        policy: String,
        /// The path.
        path: String,
    },
    /// The policy's key is a header field that there cannot be.
    Header {
        /// The policy.
        policy: String,
        /// The name of the field.
        header: String,
    },
    /// The policy's key needs a parameter that the rule's paths do not have.
    NoParameter {
        /// The policy.
        policy: String,
        /// The parameter.
        parameter: String,
    },
    /// A tier of the policy has limits of other names.
    Tier {
        /// The policy.
        policy: String,
        /// The tier's policy.
        tier: String,
    },
    /// The policy counts several units, and a rule has one cost.
    SeveralUnits(String),
    /// Two policies have this name, and different limits.
    Twins(String),
    /// The store does not take a policy.
    Store(StoreError),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRule => f.write_str("the layer has no rule; add one with `.rule(policy)`"),
            Self::NoKey(policy) => write!(
                f,
                "policy `{policy}` has no key; say what shares its budget with `.key(…)`, which may be \
                 `Key::everyone()`"
            ),
            Self::NoPeer(policy) => write!(
                f,
                "policy `{policy}` goes by the client's address, which a request does not tell; use \
                 `.build_per_connection()`, or say where it stands with `.peer(…)`"
            ),
            Self::Path { policy, path } => write!(
                f,
                "the rule of policy `{policy}` has the path `{path}`, which is no pattern or one too many; \
                 write `/users/{{id}}` or `/files/{{*path}}`"
            ),
            Self::Header { policy, header } => write!(
                f,
                "the key of policy `{policy}` is the header `{header}`, which is no name of a header field"
            ),
            Self::NoParameter { policy, parameter } => write!(
                f,
                "the key of policy `{policy}` is the parameter `{parameter}`, which its rule's paths do \
                 not all have; write `.path(\"/…/{{{parameter}}}\")`"
            ),
            Self::Tier { policy, tier } => write!(
                f,
                "policy `{tier}` is a tier of `{policy}` and has limits of other names, so that nobody could \
                 tell what was spent; give them the same names, or none at all"
            ),
            Self::SeveralUnits(policy) => write!(
                f,
                "policy `{policy}` counts several units, and a rule has one cost; give each unit a policy and a \
                 rule of its own, which are decided all or nothing"
            ),
            Self::Twins(policy) => write!(
                f,
                "two policies are called `{policy}` and decide differently; give one of them another name"
            ),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BuildError {}

impl From<StoreError> for BuildError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
