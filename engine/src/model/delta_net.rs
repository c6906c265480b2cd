//! The gated delta rule in its chunked reference form: an attention with a state that decays.

use crate::autograd::Tensor;
use crate::session::{RunError, Session};
use crate::tensor::DType;

/// How many positions are handled together.
const CHUNK: u64 = 64;

/// Sizes of one call.
#[derive(Debug, Clone, Copy)]
pub(super) struct DeltaRule {
    pub tokens: u64,
    /// Value heads; the key heads are repeated to this number.
    pub heads: u64,
    pub key_width: u64,
    pub value_width: u64,
}

/// Tensors between the two phases.
struct Chunked {
    query: Tensor,
    key: Tensor,
    intra: Tensor,
    new_values: Tensor,
    k_cumdecay: Tensor,
    chunk_decay: Tensor,
    state: Tensor,
    out: Tensor,
}

/// Scale factors by position within the sequence.
struct Decay {
    cumulative: Tensor,
    pairwise: Tensor,
}

/// `x * rsqrt((x * x).sum(-1) + eps)`.
fn l2_norm(s: &mut Session, x: Tensor) -> Result<Tensor, RunError> {
    let squares = s.mul(&x, &x)?;
    let sum = s.sum_last(&squares)?;
    drop(squares);
    let shifted = s.add_number(&sum)?;
    drop(sum);
    let inverse = s.rsqrt(&shifted)?;
    drop(shifted);
    s.mul(&x, &inverse)
}

impl DeltaRule {
    fn chunks(&self) -> u64 {
        self.tokens.div_ceil(CHUNK)
    }

    fn chunked(&self, width: u64) -> [u64; 5] {
        [1, self.heads, self.chunks(), CHUNK, width]
    }

    fn one_chunk(&self, width: u64) -> [u64; 4] {
        [1, self.heads, CHUNK, width]
    }

    /// `torch_chunk_gated_delta_rule`: query, key, value `[1, tokens, heads, width]`, decay and
    /// learning rate `[1, tokens, heads]`.
    pub(super) fn forward(
        &self,
        s: &mut Session,
        inputs: [&Tensor; 3],
        decay: &Tensor,
        beta: &Tensor,
    ) -> Result<Tensor, RunError> {
        // `transpose(1, 2).to(float32)`: heads come before positions from here on.
        let by_head = |s: &mut Session, x: &Tensor| {
            let shape = [
                1,
                self.heads,
                self.tokens,
                x.elements() / (self.heads * self.tokens),
            ];
            let wide = s.dense(x, DType::Float32)?;
            s.view(&wide, &shape)
        };
        let query = by_head(s, inputs[0])?;
        let key = by_head(s, inputs[1])?;
        let value = by_head(s, inputs[2])?;
        let beta = by_head(s, beta)?;
        let query = l2_norm(s, query)?;
        let key = l2_norm(s, key)?;
        let query = {
            let normed = query;
            s.scale(&normed)?
        };
        let (query, key, value) = {
            let unpadded = (query, key, value);
            let query = s.dense(&unpadded.0, DType::Float32)?;
            let key = s.dense(&unpadded.1, DType::Float32)?;
            (query, key, s.dense(&unpadded.2, DType::Float32)?)
        };
        let beta = {
            let unpadded = beta;
            let padded = s.dense(&unpadded, DType::Float32)?;
            let decay = s.dense(decay, DType::Float32)?;
            (padded, decay)
        };
        let (beta, decay) = beta;
        let state = self.first_phase(s, [query, key, value], &beta, decay)?;
        self.second_phase(s, state)
    }

    /// What one chunk needs from its own positions.
    fn first_phase(
        &self,
        s: &mut Session,
        [query, key, value]: [Tensor; 3],
        beta: &Tensor,
        decay: Tensor,
    ) -> Result<Chunked, RunError> {
        let column = [1, self.heads, self.tokens, 1];
        // One view for each use: their gradients meet before the view, and no gradient is reused.
        let v_factor = s.view(beta, &column)?;
        let v_beta = s.mul(&value, &v_factor)?;
        let k_factor = s.view(beta, &column)?;
        let k_beta = s.mul(&key, &k_factor)?;
        let query = s.view(&query, &self.chunked(self.key_width))?;
        let key = s.view(&key, &self.chunked(self.key_width))?;
        let k_beta = s.reshape(&k_beta, &self.chunked(self.key_width))?;
        let v_beta = s.reshape(&v_beta, &self.chunked(self.value_width))?;
        let decay = self.decay(s, decay)?;
        let system = self.scores(s, &k_beta, &key, &decay)?;
        let intra = self.scores(s, &query, &key, &decay)?;
        let grown = s.exp(&decay.cumulative)?;
        let decayed = s.mul(&k_beta, &grown)?;
        drop(grown);
        let new_values = s.solve_triangular(&system, &v_beta)?;
        let k_cumdecay = s.solve_triangular(&system, &decayed)?;
        let state = s.empty(
            &[1, self.heads, self.key_width, self.value_width],
            DType::Float32,
        )?;
        let out = s.empty(&self.chunked(self.value_width), DType::Float32)?;
        let grown = s.exp(&decay.cumulative)?;
        let query = {
            let plain = query;
            s.mul(&plain, &grown)?
        };
        drop(grown);
        let key = self.decayed_key(s, key, &decay.cumulative)?;
        let last = s.part(
            &decay.cumulative,
            &[1, self.heads, self.chunks(), 1, 1],
            CHUNK - 1,
        )?;
        let chunk_decay = s.exp(&last)?;
        Ok(Chunked {
            query,
            key,
            intra,
            new_values,
            k_cumdecay,
            chunk_decay,
            state,
            out,
        })
    }

    fn decay(&self, s: &mut Session, decay: Tensor) -> Result<Decay, RunError> {
        let mask = {
            let ones = s.empty(&[CHUNK, CHUNK], DType::Bool)?;
            s.dense(&ones, DType::Bool)?
        };
        let column = [1, self.heads, self.chunks(), CHUNK, 1];
        let row = [1, self.heads, self.chunks(), 1, CHUNK];
        let cumulative = s.cumsum(&decay)?;
        let cumulative = s.view(&cumulative, &column)?;
        let other = s.view(&cumulative, &row)?;
        let difference = s.sub(&cumulative, &other)?;
        let masked = s.masked_fill(&difference, &mask)?;
        drop(difference);
        let pairwise = s.exp(&masked)?;
        Ok(Decay {
            cumulative,
            pairwise,
        })
    }

    /// `(a @ keyᵀ) * pairwise`.
    fn scores(
        &self,
        s: &mut Session,
        a: &Tensor,
        key: &Tensor,
        decay: &Decay,
    ) -> Result<Tensor, RunError> {
        let products = s.batched(a, key, &self.chunked(CHUNK))?;
        s.mul(&products, &decay.pairwise)
    }

    fn decayed_key(
        &self,
        s: &mut Session,
        key: Tensor,
        cumulative: &Tensor,
    ) -> Result<Tensor, RunError> {
        let last = s.part(cumulative, &[1, self.heads, self.chunks(), 1, 1], CHUNK - 1)?;
        let rest = s.sub(&last, cumulative)?;
        let factor = s.exp(&rest)?;
        drop(rest);
        s.mul(&key, &factor)
    }

    /// The loop over the chunks: each chunk reads the state of the one before.
    fn second_phase(&self, s: &mut Session, phase: Chunked) -> Result<Tensor, RunError> {
        let Chunked {
            query,
            key,
            intra,
            new_values,
            k_cumdecay,
            chunk_decay,
            state,
            out,
        } = phase;
        let (mut state, mut out) = (state, out);
        let (keys, values) = (
            self.one_chunk(self.key_width),
            self.one_chunk(self.value_width),
        );
        for chunk in 0..self.chunks() {
            let at = |width: u64| chunk * CHUNK * width;
            let value = s.part(&new_values, &values, at(self.value_width))?;
            let predicted = {
                let k = s.part(&k_cumdecay, &keys, at(self.key_width))?;
                s.batched(&k, &state, &values)?
            };
            let v_new = s.sub(&value, &predicted)?;
            drop(value);
            drop(predicted);
            let inter = {
                let q = s.part(&query, &keys, at(self.key_width))?;
                s.batched(&q, &state, &values)?
            };
            let within = {
                let scores = s.part(&intra, &self.one_chunk(CHUNK), at(CHUNK))?;
                s.batched(&scores, &v_new, &values)?
            };
            let sum = s.add(&inter, &within)?;
            drop(within);
            out = s.assign_part(&out, &sum)?;
            drop(sum);
            let decayed = {
                let factor = s.part(&chunk_decay, &[1, self.heads, 1, 1], chunk)?;
                s.mul(&state, &factor)?
            };
            let update = {
                let k = s.part(&key, &keys, at(self.key_width))?;
                let shape = [1, self.heads, self.key_width, self.value_width];
                s.batched(&k, &v_new, &shape)?
            };
            state = s.add(&decayed, &update)?;
        }
        drop(state);
        let dense = s.contiguous(&out)?;
        drop(out);
        s.dense(&dense, DType::Bfloat16)
    }
}
