//! Support for objects without a spec.
//!
//! Upstream's CRDs do not require `spec`, so such objects exist in clusters that are taken over. kube's derive makes the field
//! mandatory in Rust; deserialising an `Option` makes serde accept a missing field. An absent or null spec reads as the
//! default, and the validator then reports the missing fields.

/// Implements serde for a spec that derives `#[serde(remote = "Self")]`, so that a missing or null spec is its default.
macro_rules! spec_may_be_absent {
    ($spec:ty) => {
        impl<'de> serde::Deserialize<'de> for $spec {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Present($spec);
                impl<'de> serde::Deserialize<'de> for Present {
                    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                        <$spec>::deserialize(deserializer).map(Self)
                    }
                }
                let spec = <Option<Present> as serde::Deserialize>::deserialize(deserializer)?;
                Ok(spec.map(|Present(spec)| spec).unwrap_or_default())
            }
        }

        impl serde::Serialize for $spec {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                <$spec>::serialize(self, serializer)
            }
        }
    };
}

pub(super) use spec_may_be_absent;
