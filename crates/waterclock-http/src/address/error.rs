use std::fmt;

/// Why there is no such set of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddressError {
    /// A trusted proxy's network that is none.
    NotANetwork(String),
    /// A number of leading bits that no IPv6 address has.
    NotAPrefix(u8),
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotANetwork(text) => write!(
                f,
                "the trusted proxy {text:?} is not a network: write an address or a CIDR block such as \
                 \"10.0.0.0/8\" or \"2001:db8::/32\""
            ),
            Self::NotAPrefix(bits) => {
                write!(f, "an IPv6 prefix of {bits} bits does not exist: write 1 to 128")
            }
        }
    }
}

impl std::error::Error for AddressError {}
