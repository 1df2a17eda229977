//! The key of a point cache entry: a keyspace and a key in it.

/// A keyspace and a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name<'a> {
    /// The keyspace's number.
    pub keyspace: u32,
    /// The key; never empty.
    pub key: &'a [u8],
}

/// Bits of a byte of a keyspace's number; the highest bit marks that more bytes follow.
const BITS: u32 = 7;
const MORE: u8 = 1 << BITS;

impl<'a> Name<'a> {
    /// The hash of the name, derived from the key's hash, because keyspaces share caches.
    pub fn hash(&self, key_hash: u64) -> u64 {
        key_hash ^ u64::from(self.keyspace).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    /// The encoded length in bytes: keyspaces have small numbers.
    pub(crate) fn encoded_len(&self) -> usize {
        let bits = u32::BITS - (self.keyspace | 1).leading_zeros();
        bits.div_ceil(BITS) as usize + self.key.len()
    }

    /// Encodes the name into `out`, which is [`Name::encoded_len`] long.
    pub(crate) fn encode(&self, out: &mut [u8]) {
        let mut keyspace = self.keyspace;
        let (number, key) = out.split_at_mut(out.len() - self.key.len());
        for byte in &mut *number {
            *byte = keyspace as u8 & (MORE - 1) | MORE;
            keyspace >>= BITS;
        }
        if let Some(last) = number.last_mut() {
            *last &= MORE - 1;
        }
        key.copy_from_slice(self.key);
    }

    /// Whether `bytes`, an encoded name, equal this one.
    pub(crate) fn is_encoded_as(&self, bytes: &[u8]) -> bool {
        // Nearly all keyspaces have numbers of one byte.
        if let [number, key @ ..] = bytes
            && self.keyspace < u32::from(MORE)
        {
            return u32::from(*number) == self.keyspace && key == self.key;
        }
        let name = Name::decode(bytes);
        name.keyspace == self.keyspace && name.key == self.key
    }

    /// Decodes a name.
    pub(crate) fn decode(bytes: &'a [u8]) -> Self {
        let (mut keyspace, mut at) = (0, 0);
        loop {
            let byte = bytes[at];
            keyspace |= u32::from(byte & (MORE - 1)) << (BITS * at as u32);
            at += 1;
            if byte & MORE == 0 {
                return Self { keyspace, key: &bytes[at..] };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_encoding_round_trips() {
        for keyspace in [0, 1, 127, 128, 16_383, 16_384, u32::MAX - 1, u32::MAX] {
            for key in [&b"k"[..], &[0xFF; 300]] {
                let name = Name { keyspace, key };
                let mut bytes = vec![0; name.encoded_len()];
                name.encode(&mut bytes);
                assert_eq!(Name::decode(&bytes), name);
                assert!(name.is_encoded_as(&bytes));
                assert!(!Name { keyspace: keyspace ^ 1, key }.is_encoded_as(&bytes));
                assert!(!Name { keyspace, key: &key[..key.len() - 1] }.is_encoded_as(&bytes));
                assert!(!Name { keyspace, key: b"another" }.is_encoded_as(&bytes));
            }
        }
        assert_eq!(Name { keyspace: 5, key: b"key" }.encoded_len(), 4);
    }

    #[test]
    fn hash_depends_on_the_keyspace() {
        let hash = |keyspace| Name { keyspace, key: b"k" }.hash(77);
        assert_eq!(hash(0), 77);
        assert_ne!(hash(1) as u32, hash(2) as u32);
    }
}
