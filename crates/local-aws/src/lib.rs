//! A local AWS: EKS answered from a model with the rules of the real one, everything else handed to moto.
