//! TALKING TO ETCD: numbers that must not be mistaken for one another.

use std::fmt;

macro_rules! id {
    ($($(#[$doc:meta])* $name:ident),*) => {$(
        $(#[$doc])*
        ///
        /// Shown as etcd and etcdctl show it: hexadecimal, without leading zeros.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:x}", self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = std::num::ParseIntError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                u64::from_str_radix(text, 16).map(Self)
            }
        }
    )*};
}

macro_rules! number {
    ($($(#[$doc:meta])* $name:ident($inner:ty)),*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

id!(
    /// Who a member is. A member that is removed and added again gets another one.
    MemberId,
    /// Which cluster a member belongs to.
    ClusterId
);
number!(
    /// A state of the keys: it grows with every change.
    Revision(i64),
    /// A leader's reign: it grows with every election.
    RaftTerm(u64),
    /// A place in the log that the members agree on.
    RaftIndex(u64)
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_and_shows_as_etcdctl_does() {
        assert_eq!(MemberId(0x00e8_9ee7_a5c4_e66a).to_string(), "e89ee7a5c4e66a");
        assert_eq!("e89ee7a5c4e66a".parse::<MemberId>(), Ok(MemberId(0x00e8_9ee7_a5c4_e66a)));
        assert!("xyz".parse::<ClusterId>().is_err());
    }
}
