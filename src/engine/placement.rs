//! shim
/// shim
#[derive(Debug)]
pub struct Placement(pub usize);
impl Placement {
    /// shim
    pub fn choose(_cpus: Option<&[u16]>, shards: Option<u16>) -> std::io::Result<Self> {
        Ok(Self(shards.map_or(2, usize::from)))
    }
    /// shim
    pub fn len(&self) -> usize {
        self.0
    }
}
