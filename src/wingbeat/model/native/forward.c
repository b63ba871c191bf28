/* One forward of a decoder (or draft head) over a few tokens, on the CPU, in bfloat16 with float32 sums; the weights
 * may be int8 instead.
 *
 * A token's arithmetic does not depend on which other tokens share its forward: every sum runs in the same order
 * whatever the width, so verifying eight tokens gives bit for bit what decoding them one by one gives.
 *
 * Shapes: B rows of N new tokens, M = B * N; H hidden, F intermediate, A query heads, K key/value heads, D head size,
 * L cache columns. Packed weights: [rows / 16][cols / 2][16][2] bfloat16, rows padded to 16 with zeros. Packed int8
 * weights (see int8.py), for each 16 rows: bfloat16 scales [groups][16], padded to 64 bytes, then the weights plus 128,
 * [groups][GROUP / 4][16][4] bytes.
 */
#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined __AVX512BF16__ || defined __AVX512VNNI__
#include <immintrin.h>
#endif

typedef uint16_t bf16;
typedef float lanes __attribute__((vector_size(64), aligned(4)));
typedef int32_t wholes __attribute__((vector_size(64), aligned(4)));
typedef uint32_t pairs __attribute__((vector_size(64), aligned(4))); /* 16 outputs, two weights (or four bytes) each */
typedef uint16_t halves __attribute__((vector_size(32), aligned(2)));

#define MAX_HEAD_DIM 256
#define QUERIES 24 /* that attention takes at once */
#define CHUNK 128 /* columns that attention takes at once, a multiple of 16 */
#define SLOTS 4 /* for each thread, of parts of attention */
#define GROUP 32 /* inputs that share a scale in int8 */

typedef struct { const void *weight; const float *bias; int64_t rows, cols, is_int8; } Linear;

/* A token's inputs for one group of int8 weights: `start` takes back what the 128 in every weight adds. */
typedef struct { int8_t input[GROUP]; float scale; int32_t start; } Group;

typedef struct {
    Linear qkv, o, gate, up, down;
    const float *input_norm, *post_norm, *q_norm, *k_norm; /* the last two may be null */
} Layer;

typedef struct {
    int64_t num_layers, hidden, inter, heads, kv_heads, head_dim, threads, is_head, norm_before_residual;
    double eps;
    const bf16 *embed;
    const float *final_norm, *hidden_norm; /* hidden_norm: heads only */
    const Layer *layers;
} Model;

typedef struct {
    int64_t rows, width, length; /* B, N, L */
    const int64_t *tokens, *positions, *starts; /* [M], [M], [B]; positions and mask are null for tokens in a row */
    const uint8_t *mask; /* [M][L]: the columns a token sees */
    const float *cos, *sin; /* [positions][D / 2] */
    bf16 *const *keys, *const *values; /* a layer each: [B][K][columns][D] */
    int64_t row_stride, head_stride; /* in elements */
    const int64_t *taps; /* layers whose input is copied out */
    int64_t num_taps;
} Block;

static int64_t chunks_of(int64_t length) { return (length + CHUNK - 1) / CHUNK; }

typedef struct {
    bf16 *joined, *query, *attended, *active;
    float *qkv, *parts; /* parts: of attention, [slots][chunks][QUERIES][D + 16] */
    Group *rounded;
} Scratch;

static inline float widen(bf16 value) {
    union { uint32_t bits; float value; } u = {(uint32_t)value << 16};
    return u.value;
}

static inline bf16 narrow(float value) { /* round to nearest even */
    union { float value; uint32_t bits; } u = {value};
    return (bf16)((u.bits + 0x7fff + ((u.bits >> 16) & 1)) >> 16);
}

static inline float exponential(float x) { /* relative error below 2e-7; vectorised by the compiler */
    x = x > -87.0f ? x : -87.0f; /* fmaxf would be a call */
    float n = rintf(x * 1.44269504f), r = fmaf(n, -0.693359375f, x);
    r = fmaf(n, 2.12194440e-4f, r);
    float p = fmaf(1.9875691500e-4f, r, 1.3981999507e-3f); /* the polynomial of Cephes' expf */
    p = fmaf(fmaf(p, r, 8.3334519073e-3f), r, 4.1665795894e-2f);
    p = fmaf(fmaf(p, r, 1.6666665459e-1f), r, 5.0000001201e-1f);
    union { int32_t bits; float value; } scale = {((int32_t)n + 127) << 23};
    return fmaf(p, r * r, r + 1.0f) * scale.value;
}

static inline void share(int64_t total, int64_t *first, int64_t *last) {
    int64_t thread = omp_get_thread_num(), threads = omp_get_num_threads();
    *first = total * thread / threads, *last = total * (thread + 1) / threads;
}

/* acc += weights (16 outputs, two inputs) times one token's two inputs */
static inline lanes multiply_add(lanes acc, pairs weight, uint32_t input) {
#ifdef __AVX512BF16__
    return (lanes)_mm512_dpbf16_ps((__m512)acc, (__m512bh)weight, (__m512bh)_mm512_set1_epi32((int)input));
#else
    lanes low = (lanes)(weight << 16), high = (lanes)(weight & 0xffff0000u);
    return acc + low * widen((bf16)input) + high * widen((bf16)(input >> 16));
#endif
}

/* `blocks` blocks of 16 outputs for `width` tokens, both constants in every call: out[token][block * 16 + output].
 * Meanwhile as many of the weights that follow come into the cache, so that memory and arithmetic work together. */
static inline __attribute__((always_inline)) void tile(const Linear *m, int64_t block, const bf16 *x, float out[8][64],
                                                       const int blocks, const int width) {
    lanes acc[4][8];
    const int64_t steps = m->cols / 2;
    const pairs *weight = (const pairs *)m->weight + block * steps, *ahead = weight + blocks * steps;
    for (int b = 0; b < blocks; b++)
        for (int n = 0; n < width; n++) acc[b][n] = (lanes){0};
    for (int64_t k = 0; k < steps; k++) {
        uint32_t input[8];
#pragma GCC unroll 8
        for (int n = 0; n < width; n++) memcpy(&input[n], x + n * m->cols + 2 * k, 4);
#pragma GCC unroll 4
        for (int b = 0; b < blocks; b++) {
            pairs w = weight[b * steps + k];
            __builtin_prefetch(ahead + k * blocks + b, 0, 2);
#pragma GCC unroll 8
            for (int n = 0; n < width; n++) acc[b][n] = multiply_add(acc[b][n], w, input[n]);
        }
    }
    for (int b = 0; b < blocks; b++)
        for (int n = 0; n < width; n++) memcpy(&out[n][16 * b], &acc[b][n], 64);
}

/* acc += weights plus 128 (16 outputs, four inputs) times one token's four inputs */
static inline wholes multiply_add_int8(wholes acc, pairs weight, uint32_t input) {
#ifdef __AVX512VNNI__
    return (wholes)_mm512_dpbusd_epi32((__m512i)acc, (__m512i)weight, _mm512_set1_epi32((int)input));
#else
    for (int i = 0; i < 32; i += 8) acc += (wholes)(weight >> i & 255) * (int8_t)(input >> i);
    return acc;
#endif
}

static int64_t groups_of(int64_t cols) { return (cols + GROUP - 1) / GROUP; }

/* As `tile`, with int8 weights: whole numbers are summed within a group, floats over the groups. */
static inline __attribute__((always_inline)) void tile_int8(const Linear *m, int64_t block, const Group *x,
                                                            float out[8][64], const int blocks, const int width) {
    lanes sums[4][8];
    const int64_t groups = groups_of(m->cols), lines = (groups + 1) / 2 + groups * (GROUP / 4); /* of 64 bytes, a block */
    const pairs *begin = (const pairs *)m->weight + block * lines, *weight = begin + (groups + 1) / 2;
    const pairs *ahead = begin + blocks * lines;
    for (int b = 0; b < blocks; b++)
        for (int n = 0; n < width; n++) sums[b][n] = (lanes){0};
    for (int64_t g = 0; g < groups; g++, weight += GROUP / 4) {
        wholes acc[4][8];
        for (int b = 0; b < blocks; b++)
            for (int n = 0; n < width; n++) acc[b][n] = (wholes){0} + x[n * groups + g].start;
#pragma GCC unroll 1
        for (int64_t k = 0; k < GROUP / 4; k++) {
            uint32_t input[8];
#pragma GCC unroll 8
            for (int n = 0; n < width; n++) memcpy(&input[n], x[n * groups + g].input + 4 * k, 4);
#pragma GCC unroll 4
            for (int b = 0; b < blocks; b++) {
                pairs w = weight[b * lines + k];
                __builtin_prefetch(ahead++, 0, 2);
#pragma GCC unroll 8
                for (int n = 0; n < width; n++) acc[b][n] = multiply_add_int8(acc[b][n], w, input[n]);
            }
        }
#pragma GCC unroll 4
        for (int b = 0; b < blocks; b++) {
            halves half;
            memcpy(&half, (const char *)(begin + b * lines) + 32 * g, 32);
            lanes scale = (lanes)(__builtin_convertvector(half, pairs) << 16);
            __builtin_prefetch(ahead++, 0, 2);
#pragma GCC unroll 8
            for (int n = 0; n < width; n++)
                sums[b][n] += __builtin_convertvector(acc[b][n], lanes) * (scale * x[n * groups + g].scale);
        }
    }
    for (int b = 0; b < blocks; b++)
        for (int n = 0; n < width; n++) memcpy(&out[n][16 * b], &sums[b][n], 64);
}

#define WIDTHS(name, kind, blocks) \
    static void name(const Linear *m, int64_t block, const void *x, float out[8][64], int width) { \
        switch (width) { \
            case 1: kind(m, block, x, out, blocks, 1); return; case 2: kind(m, block, x, out, blocks, 2); return; \
            case 3: kind(m, block, x, out, blocks, 3); return; case 4: kind(m, block, x, out, blocks, 4); return; \
            case 5: kind(m, block, x, out, blocks, 5); return; case 6: kind(m, block, x, out, blocks, 6); return; \
            case 7: kind(m, block, x, out, blocks, 7); return; default: kind(m, block, x, out, blocks, 8); return; \
        } \
    }

WIDTHS(tile_1, tile, 1)
WIDTHS(tile_2, tile, 2)
WIDTHS(tile_4, tile, 4)
WIDTHS(tile_int8_1, tile_int8, 1)
WIDTHS(tile_int8_2, tile_int8, 2)
WIDTHS(tile_int8_4, tile_int8, 4)

static void (*const TILES[2][3])(const Linear *, int64_t, const void *, float[8][64], int) = {
    {tile_1, tile_2, tile_4}, {tile_int8_1, tile_int8_2, tile_int8_4}};

/* A tile of up to 8 tokens: as many blocks at once as leave their sums in registers. Returns the blocks done. */
static int any_tile(const Linear *m, int64_t block, int64_t left, const void *x, float out[8][64], int width) {
    const int blocks = left >= 4 && width <= 4 ? 4 : left >= 2 ? 2 : 1;
    TILES[m->is_int8][blocks / 2](m, block, x, out, width);
    return blocks;
}

static inline void round_group(const bf16 *x, int64_t size, Group *to) {
    bf16 padded[GROUP] = {0};
    float values[GROUP], most = 0;
    int32_t numbers[GROUP], sum = 0;
    if (size < GROUP) x = memcpy(padded, x, size * sizeof *x);
    for (int64_t i = 0; i < GROUP; i++) values[i] = widen(x[i]);
#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < GROUP; i++) most = fabsf(values[i]) > most ? fabsf(values[i]) : most;
    const float inverse = most > 0 ? 127 / most : 0;
    for (int64_t i = 0; i < GROUP; i++) numbers[i] = (int32_t)rintf(values[i] * inverse);
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < GROUP; i++) sum += numbers[i];
    for (int64_t i = 0; i < GROUP; i++) to->input[i] = (int8_t)numbers[i];
    to->scale = most / 127, to->start = -128 * sum;
}

/* x[M][cols] as the weights take it: as it is, or rounded into `room`. All threads call it and share the work. */
static const void *prepare(const Linear *m, const bf16 *x, int64_t M, Group *room) {
    if (!m->is_int8) return x;
    int64_t first, last, groups = groups_of(m->cols);
    share(M * groups, &first, &last);
    for (int64_t unit = first; unit < last; unit++) {
        int64_t begin = unit % groups * GROUP, left = m->cols - begin;
        round_group(x + unit / groups * m->cols + begin, left < GROUP ? left : GROUP, room + unit);
    }
#pragma omp barrier
    return room;
}

static const void *token_of(const Linear *m, const void *prepared, int64_t token) {
    if (m->is_int8) return (const Group *)prepared + token * groups_of(m->cols);
    return (const bf16 *)prepared + token * m->cols;
}

/* out[M][rows] = x[M][cols] times the weights, plus the bias; added to what is there if `add`. This thread's share. */
static void multiply(const Linear *m, const bf16 *x, int64_t M, float *out, int add, Group *room) {
    const void *inputs = prepare(m, x, M, room);
    int64_t first, last, done;
    share((m->rows + 15) / 16, &first, &last);
    float buffer[8][64] __attribute__((aligned(64)));
    for (int64_t block = first; block < last; block += done) {
        done = 1;
        for (int64_t token = 0; token < M; token += 8) {
            int width = M - token < 8 ? (int)(M - token) : 8;
            int64_t left = last - block;
            if (M > 8 && left > 2) left = 2; /* all tiles of a group must do the same blocks */
            done = any_tile(m, block, left, token_of(m, inputs, token), buffer, width);
            int64_t size = m->rows - 16 * block < 16 * done ? m->rows - 16 * block : 16 * done;
            for (int n = 0; n < width; n++) {
                float *to = out + (token + n) * m->rows + 16 * block;
                for (int64_t i = 0; i < size; i++) {
                    float value = buffer[n][i] + (m->bias ? m->bias[16 * block + i] : 0.0f);
                    to[i] = add ? to[i] + value : value;
                }
            }
        }
    }
}

/* act[M][F] = silu(gate x) * (up x). This thread's share. */
static void activate(const Layer *layer, const bf16 *x, int64_t M, bf16 *active, Group *room) {
    const void *inputs = prepare(&layer->gate, x, M, room);
    int64_t first, last, done, F = layer->gate.rows;
    share((F + 15) / 16, &first, &last);
    float gate[8][64] __attribute__((aligned(64))), up[8][64] __attribute__((aligned(64)));
    for (int64_t block = first; block < last; block += done) {
        done = 1;
        for (int64_t token = 0; token < M; token += 8) {
            int width = M - token < 8 ? (int)(M - token) : 8;
            int64_t left = last - block < 2 ? last - block : 2;
            const void *input = token_of(&layer->gate, inputs, token);
            done = any_tile(&layer->gate, block, left, input, gate, width);
            any_tile(&layer->up, block, left, input, up, width);
            int64_t size = F - 16 * block < 16 * done ? F - 16 * block : 16 * done;
            for (int n = 0; n < width; n++) {
                bf16 *to = active + (token + n) * F + 16 * block;
#pragma omp simd
                for (int64_t i = 0; i < size; i++)
                    to[i] = narrow(gate[n][i] / (1.0f + exponential(-gate[n][i])) * up[n][i]);
            }
        }
    }
}

static float inverse_rms(const float *x, int64_t size, double eps) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < size; i++) sum += x[i] * x[i];
    return 1.0f / sqrtf(sum / (float)size + (float)eps);
}

static void norm(const float *x, const float *weight, int64_t size, double eps, bf16 *out) {
    float scale = inverse_rms(x, size, eps);
#pragma omp simd
    for (int64_t i = 0; i < size; i++) out[i] = narrow(x[i] * scale * weight[i]);
}

/* Norm (if any) and rotary embedding of one head, in place: the two halves turn against each other. */
static void rotate(float *head, const float *weight, const float *cos, const float *sin, int64_t D, double eps) {
    if (weight) {
        float scale = inverse_rms(head, D, eps);
        for (int64_t i = 0; i < D; i++) head[i] *= scale * weight[i];
    }
    for (int64_t i = 0; i < D / 2; i++) {
        float a = head[i], b = head[i + D / 2];
        head[i] = a * cos[i] - b * sin[i], head[i + D / 2] = b * cos[i] + a * sin[i];
    }
}

/* Turns queries and keys of this thread's tokens, and writes keys and values into the cache. */
static void place(const Model *model, const Layer *layer, const Block *b, int64_t index, Scratch *s) {
    const int64_t D = model->head_dim, A = model->heads, K = model->kv_heads, all = A + 2 * K;
    int64_t first, last;
    share(b->rows * b->width * all, &first, &last);
    for (int64_t unit = first; unit < last; unit++) {
        int64_t token = unit / all, head = unit % all, row = token / b->width;
        float *from = s->qkv + unit * D;
        int64_t column = b->starts[row] + token % b->width, position = b->positions ? b->positions[token] : column;
        const float *cos = b->cos + position * (D / 2), *sin = b->sin + position * (D / 2);
        bf16 *to = s->query + (token * A + head) * D;
        if (head < A) rotate(from, layer->q_norm, cos, sin, D, model->eps);
        else {
            int64_t shared = (head - A) % K;
            bf16 *cache = head < A + K ? b->keys[index] : b->values[index];
            if (head < A + K) rotate(from, layer->k_norm, cos, sin, D, model->eps);
            to = cache + row * b->row_stride + shared * b->head_stride + column * D;
        }
        for (int64_t i = 0; i < D; i++) to[i] = narrow(from[i]);
    }
}

/* Turns 16 rows of 16 numbers into columns. */
static inline __attribute__((always_inline)) void transpose(pairs rows[16]) {
#pragma GCC unroll 4
    for (uint32_t size = 1; size < 16; size *= 2) {
        pairs low, high;
        for (uint32_t lane = 0; lane < 16; lane++) {
            low[lane] = lane & size ? 16 + lane - size : lane;
            high[lane] = lane & size ? 16 + lane : lane + size;
        }
#pragma GCC unroll 16
        for (uint32_t row = 0; row < 16; row++) {
            if (row & size) continue;
            pairs first = rows[row], second = rows[row | size];
            rows[row] = __builtin_shuffle(first, second, low), rows[row | size] = __builtin_shuffle(first, second, high);
        }
    }
}

/* Keys of up to 16 columns as a block of packed weights, to[D / 2], zeros where there are fewer. */
static void pack_keys(const bf16 *keys, const int32_t *columns, int64_t count, int64_t D, pairs *to) {
    for (int64_t begin = 0; begin < D / 2; begin += 16) {
        pairs rows[16];
        int64_t size = D / 2 - begin < 16 ? D / 2 - begin : 16;
        memset(rows, 0, sizeof rows);
        for (int64_t i = 0; i < count; i++) { /* copies of constant size; sizes are 8 or 16 */
            if (size == 16) memcpy(&rows[i], keys + columns[i] * D + 2 * begin, 64);
            else memcpy(&rows[i], keys + columns[i] * D + 2 * begin, 32);
        }
        transpose(rows);
        memcpy(to + begin, rows, 64 * size);
    }
}

/* scores[query * stride + i] = query times the key of columns[i], scaled, for `width` queries [width][D]. */
static void score(const bf16 *queries, int64_t width, const bf16 *keys, const int32_t *columns, int64_t count,
                  int64_t D, float *scores, int64_t stride) {
    pairs packed[4 * MAX_HEAD_DIM / 2];
    float buffer[8][64] __attribute__((aligned(64))), scale = 1.0f / sqrtf((float)D);
    for (int64_t begin = 0; begin < count; begin += 64) {
        int64_t size = count - begin < 64 ? count - begin : 64, blocks = (size + 15) / 16, done;
        Linear block_keys = {packed, 0, 16 * blocks, D, 0};
        for (int64_t block = 0; block < blocks; block++)
            pack_keys(keys, columns + begin + 16 * block, size - 16 * block < 16 ? size - 16 * block : 16, D,
                      packed + block * (D / 2));
        for (int64_t query = 0; query < width; query += 8)
            for (int64_t block = 0; block < blocks; block += done) {
                int some = width - query < 8 ? (int)(width - query) : 8;
                done = any_tile(&block_keys, block, blocks - block, queries + query * D, buffer, some);
                for (int n = 0; n < some; n++)
                    for (int64_t i = 0; i < 16 * done; i++)
                        scores[(query + n) * stride + begin + 16 * block + i] = buffer[n][i] * scale;
            }
    }
}

/* Scores into the exponentials of the softmax, less the largest of them; returns their sum. */
static float exponentials(float *scores, int64_t count, float *most) {
    float largest = -INFINITY, total = 0;
#pragma omp simd reduction(max : largest)
    for (int64_t i = 0; i < count; i++) largest = scores[i] > largest ? scores[i] : largest;
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < count; i++) total += scores[i] = exponential(scores[i] - largest);
    *most = largest;
    return total;
}

/* mixed[query][part ..] += weights[query * stride + i] * the value of columns[i], in their order, for 16 * `parts`
 * numbers of each value; `parts` and `width` are constant. */
static inline __attribute__((always_inline)) void mix_some(
    const float *weights, int64_t stride, const bf16 *values, const int32_t *columns, int64_t count, int64_t D,
    float *mixed, int64_t size, const int parts, const int width) {
    lanes acc[4][8];
    for (int p = 0; p < parts; p++)
        for (int n = 0; n < width; n++) memcpy(&acc[p][n], mixed + n * size + 16 * p, 64);
    for (int64_t i = 0; i < count; i++) {
#pragma GCC unroll 4
        for (int p = 0; p < parts; p++) {
            halves half;
            memcpy(&half, values + columns[i] * D + 16 * p, 32);
            lanes value = (lanes)(__builtin_convertvector(half, pairs) << 16);
#pragma GCC unroll 8
            for (int n = 0; n < width; n++) acc[p][n] += value * weights[n * stride + i];
        }
    }
    for (int p = 0; p < parts; p++)
        for (int n = 0; n < width; n++) memcpy(mixed + n * size + 16 * p, &acc[p][n], 64);
}

static inline __attribute__((always_inline)) void mix_parts(
    const float *weights, int64_t stride, const bf16 *values, const int32_t *columns, int64_t count, int64_t D,
    float *mixed, int64_t size, const int parts, const int width) {
    int64_t at = 0;
    for (; at + 16 * parts <= D; at += 16 * parts)
        mix_some(weights, stride, values + at, columns, count, D, mixed + at, size, parts, width);
    for (; at < D; at += 16) mix_some(weights, stride, values + at, columns, count, D, mixed + at, size, 1, width);
}

static void mix(const float *weights, int64_t stride, int64_t width, const bf16 *values, const int32_t *columns,
                int64_t count, int64_t D, float *mixed, int64_t size) {
    for (; width >= 8; width -= 8, weights += 8 * stride, mixed += 8 * size)
        mix_parts(weights, stride, values, columns, count, D, mixed, size, 2, 8);
    for (; width >= 3; width -= 3, weights += 3 * stride, mixed += 3 * size)
        mix_parts(weights, stride, values, columns, count, D, mixed, size, 4, 3);
    for (; width >= 1; width -= 1, weights += stride, mixed += size)
        mix_parts(weights, stride, values, columns, count, D, mixed, size, 4, 1);
}

/* How many columns, from the cache's begin on, a token of a row sees without a gap. */
static int64_t without_gap(const Block *b, int64_t row, int64_t token) {
    if (!b->mask) return b->starts[row] + token + 1;
    const uint8_t *mask = b->mask + (row * b->width + token) * b->length, *hidden = memchr(mask, 0, b->length);
    return hidden ? hidden - mask : b->length;
}

/* The columns from `from` on that a token of a row sees, without the first `skip` of them: up to `most`. Returns how
 * many. */
static int64_t seen(const Block *b, int64_t row, int64_t token, int64_t from, int64_t skip, int64_t most,
                    int32_t *columns) {
    int64_t count = 0, last = b->starts[row] + (b->mask ? b->width : token + 1);
    if (!b->mask) {
        for (int64_t at = from + skip; at < last && count < most; at++) columns[count++] = (int32_t)at;
        return count;
    }
    const uint8_t *mask = b->mask + (row * b->width + token) * b->length;
    const uint8_t *at = mask + from, *end = mask + (last < b->length ? last : b->length);
    for (; count < skip + most && at < end && (at = memchr(at, 1, end - at)); at++, count++)
        if (count >= skip) columns[count - skip] = (int32_t)(at - mask);
    return count > skip ? count - skip : 0;
}

/* Queries `first` .. `first + width - 1` of one row's key/value head; a query is a token's head. */
typedef struct { int64_t row, shared, first, width; } Queries;

static Queries queries_of(const Model *model, const Block *b, int64_t unit) {
    const int64_t K = model->kv_heads, all = b->width * (model->heads / K), parts = (all + QUERIES - 1) / QUERIES;
    int64_t first = unit % parts * QUERIES;
    return (Queries){unit / parts / K, unit / parts % K, first, all - first < QUERIES ? all - first : QUERIES};
}

/* What some queries make of one chunk of the columns they see, counted in each token's own order: part[query], D sums of
 * values, the largest score and the sum of weights. Columns that all see, from the cache's begin on, are shared work. */
static void attend_chunk(const Model *model, const Block *b, int64_t index, const Scratch *s, Queries q, int64_t chunk,
                         float *part) {
    const int64_t D = model->head_dim, A = model->heads, group = A / model->kv_heads, size = D + 16;
    const int64_t offset = q.row * b->row_stride + q.shared * b->head_stride, begin = chunk * CHUNK;
    const bf16 *keys = b->keys[index] + offset, *values = b->values[index] + offset;
    float scores[QUERIES * CHUNK] __attribute__((aligned(64)));
    bf16 queries[QUERIES * MAX_HEAD_DIM];
    int32_t columns[CHUNK];
    int64_t common = b->length, together = 0;
    for (int64_t n = 0; n < q.width; n++) {
        int64_t token = (q.first + n) / group, head = q.shared * group + (q.first + n) % group;
        memcpy(queries + n * D, s->query + ((q.row * b->width + token) * A + head) * D, D * sizeof *queries);
        memset(part + n * size, 0, D * sizeof *part);
        int64_t free = without_gap(b, q.row, token);
        common = free < common ? free : common;
    }
    common = common / 16 * 16; /* so that a column's place in a vector is the same whatever is shared */
    if (common > begin) together = common - begin < CHUNK ? common - begin : CHUNK;
    for (int64_t i = 0; i < together; i++) columns[i] = (int32_t)(begin + i);
    score(queries, q.width, keys, columns, together, D, scores, CHUNK);
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t n = 0, some; n < q.width; n += some) {
            int64_t token = (q.first + n) / group, left = (token + 1) * group - q.first - n;
            int64_t skip = begin > common ? begin - common : 0, room = CHUNK - together;
            int64_t own = seen(b, q.row, token, common, skip, room, columns + together);
            float *mine = scores + n * CHUNK;
            some = left < q.width - n ? left : q.width - n;
            if (pass) {
                mix(mine + together, CHUNK, some, values, columns + together, own, D, part + n * size, size);
                continue;
            }
            score(queries + n * D, some, keys, columns + together, own, D, mine + together, CHUNK);
            for (float *to = part + n * size + D; mine < scores + (n + some) * CHUNK; mine += CHUNK, to += size)
                to[1] = exponentials(mine, together + own, to);
        }
        if (!pass) mix(scores, CHUNK, q.width, values, columns, together, D, part, size);
    }
}

/* One query's chunks become its attention. Chunks in which it sees nothing add zeros. */
static void merge(const float *part, int64_t chunks, int64_t D, bf16 *out) {
    const int64_t size = D + 16, next = QUERIES * size;
    float most = -INFINITY, total = 0, mixed[MAX_HEAD_DIM] = {0};
    for (int64_t c = 0; c < chunks; c++) most = part[c * next + D] > most ? part[c * next + D] : most;
    for (int64_t c = 0; c < chunks; c++, part += next) {
        float weight = exponential(part[D] - most);
        total += weight * part[D + 1];
        for (int64_t d = 0; d < D; d++) mixed[d] += weight * part[d];
    }
    for (int64_t d = 0; d < D; d++) out[d] = narrow(mixed[d] / total);
}

static void merge_all(const Model *model, const Block *b, Scratch *s, Queries q, const float *parts) {
    const int64_t D = model->head_dim, group = model->heads / model->kv_heads;
    for (int64_t n = 0; n < q.width; n++) {
        int64_t token = q.row * b->width + (q.first + n) / group, head = q.shared * group + (q.first + n) % group;
        merge(parts + n * (D + 16), chunks_of(b->length), D, s->attended + (token * model->heads + head) * D);
    }
}

/* Attention. Many queries: each thread takes its share of them. Few: threads share their chunks. */
static void attend(const Model *model, const Block *b, int64_t index, Scratch *s) {
    const int64_t D = model->head_dim, each = b->width * (model->heads / model->kv_heads);
    const int64_t units = b->rows * model->kv_heads * ((each + QUERIES - 1) / QUERIES);
    const int64_t chunks = chunks_of(b->length), size = chunks * QUERIES * (D + 16);
    const int64_t split = units < SLOTS * model->threads ? chunks : 1;
    int64_t first, last;
    share(units * split, &first, &last);
    for (int64_t unit = first; unit < last; unit++) {
        Queries q = queries_of(model, b, unit / split);
        float *parts = s->parts + (split > 1 ? unit / split : omp_get_thread_num()) * size;
        for (int64_t chunk = unit % split; chunk < (split > 1 ? unit % split + 1 : chunks); chunk++)
            attend_chunk(model, b, index, s, q, chunk, parts + chunk * QUERIES * (D + 16));
        if (split == 1) merge_all(model, b, s, q, parts);
    }
    if (split == 1) return;
#pragma omp barrier
    share(units, &first, &last);
    for (int64_t unit = first; unit < last; unit++)
        merge_all(model, b, s, queries_of(model, b, unit), s->parts + unit * size);
}

static void layer_forward(const Model *model, const Layer *layer, const Block *b, int64_t index, float *x, Scratch *s) {
    const int64_t M = b->rows * b->width, H = model->hidden;
    int64_t first, last;
    share(M, &first, &last);
    if (!model->is_head)
        for (int64_t m = first; m < last; m++) norm(x + m * H, layer->input_norm, H, model->eps, s->joined + m * H);
#pragma omp barrier
    multiply(&layer->qkv, s->joined, M, s->qkv, 0, s->rounded);
#pragma omp barrier
    place(model, layer, b, index, s);
#pragma omp barrier
    attend(model, b, index, s);
#pragma omp barrier
    multiply(&layer->o, s->attended, M, x, 1, s->rounded);
#pragma omp barrier
    for (int64_t m = first; m < last; m++) norm(x + m * H, layer->post_norm, H, model->eps, s->joined + m * H);
#pragma omp barrier
    activate(layer, s->joined, M, s->active, s->rounded);
#pragma omp barrier
    multiply(&layer->down, s->active, M, x, 1, s->rounded);
#pragma omp barrier
}

/* Where a forward starts: the embedding, or a head's [embedding; feature] with the feature as the residual. */
static void begin(const Model *model, const Block *b, float *x, Scratch *s) {
    const int64_t H = model->hidden;
    int64_t first, last;
    share(b->rows * b->width, &first, &last);
    for (int64_t m = first; m < last; m++) {
        const bf16 *embedded = model->embed + b->tokens[m] * H;
        float *to = model->is_head ? s->qkv + m * H : x + m * H;
        for (int64_t i = 0; i < H; i++) to[i] = widen(embedded[i]);
        if (!model->is_head) continue;
        bf16 *joined = s->joined + 2 * m * H;
        norm(to, model->layers->input_norm, H, model->eps, joined);
        norm(x + m * H, model->hidden_norm, H, model->eps, joined + H);
        if (model->norm_before_residual)
            for (int64_t i = 0; i < H; i++) x[m * H + i] = widen(joined[H + i]);
    }
}

static void copy_taps(const Model *model, const Block *b, int64_t index, const float *x, bf16 *taps) {
    const int64_t H = model->hidden;
    int64_t first, last;
    share(b->rows * b->width, &first, &last);
    for (int64_t tap = 0; tap < b->num_taps; tap++)
        if (b->taps[tap] == index)
            for (int64_t m = first; m < last; m++)
                for (int64_t i = 0; i < H; i++) taps[(m * b->num_taps + tap) * H + i] = narrow(x[m * H + i]);
}

static int64_t take(char **memory, int64_t bytes) {
    int64_t padded = (bytes + 63) / 64 * 64;
    if (*memory) *memory += padded;
    return padded;
}

/* Lays the scratch out from `memory` (or only counts, if null); returns its bytes. */
static int64_t lay_out(const Model *m, int64_t M, int64_t L, char *memory, Scratch *s) {
    const int64_t D = m->head_dim, wide = (m->heads + 2 * m->kv_heads) * D, inputs = m->is_head ? 2 : 1;
    int64_t most = inputs * m->hidden > m->heads * D ? inputs * m->hidden : m->heads * D;
    most = m->inter > most ? m->inter : most;
    char *at = memory;
    int64_t bytes = 0;
#define TAKE(field, size) s->field = (void *)at, bytes += take(&at, (size) * (int64_t)sizeof *s->field)
    TAKE(joined, M * inputs * m->hidden), TAKE(query, M * m->heads * D), TAKE(attended, M * m->heads * D);
    TAKE(active, M * m->inter), TAKE(qkv, M * (wide > m->hidden ? wide : m->hidden));
    TAKE(parts, SLOTS * m->threads * chunks_of(L) * QUERIES * (D + 16));
    TAKE(rounded, M * groups_of(most));
    return bytes;
}

int64_t scratch_bytes(const Model *model, int64_t M, int64_t L) {
    Scratch unused;
    return lay_out(model, M, L, 0, &unused);
}

/* x [M][H]: a head's features on entry, the residual stream on exit. taps [M][num_taps][H]; normed [M][H] or null. */
void forward(const Model *model, const Block *b, float *x, bf16 *taps, bf16 *normed, char *memory) {
    const int64_t M = b->rows * b->width;
    Scratch s;
    lay_out(model, M, b->length, memory, &s);
#pragma omp parallel num_threads(model->threads)
    {
        begin(model, b, x, &s);
        for (int64_t index = 0; index < model->num_layers; index++) {
            copy_taps(model, b, index, x, taps);
            layer_forward(model, model->layers + index, b, index, x, &s);
        }
        copy_taps(model, b, model->num_layers, x, taps);
        int64_t first, last;
        share(M, &first, &last);
        for (int64_t m = first; normed && m < last; m++)
            norm(x + m * model->hidden, model->final_norm, model->hidden, model->eps, normed + m * model->hidden);
    }
}

/* out [M][rows] = x [M][cols] times the weights. */
void project(const Linear *linear, const bf16 *x, int64_t M, float *out, int64_t threads) {
    Group *room = linear->is_int8 ? malloc(M * groups_of(linear->cols) * sizeof *room) : 0;
#pragma omp parallel num_threads(threads)
    multiply(linear, x, M, out, 0, room);
    free(room);
}

/* The most probable word of each row and its log-probability. logits [B][size]. */
static void best_words(const float *logits, int64_t size, int64_t B, int64_t *words, float *log_probs) {
    for (int64_t row = 0; row < B; row++) {
        const float *score = logits + row * size;
        float most = -INFINITY, total = 0;
        int64_t word = 0;
#pragma omp simd reduction(max : most)
        for (int64_t i = 0; i < size; i++) most = score[i] > most ? score[i] : most;
        while (score[word] < most) word++;
#pragma omp simd reduction(+ : total)
        for (int64_t i = 0; i < size; i++) total += exponential(score[i] - most);
        words[row] = word, log_probs[row] = -logf(total);
    }
}

/* Drafts a chain of up to `steps` tokens for every row with a head, greedily: tokens [B][1 + steps] of the target behind
 * the row's root, scores [B][steps] their cumulative log-probability. Stops where no row's score would reach `floor`;
 * returns the steps done.
 *
 * b: one token a row, its `starts` those of the first drafted pair (they move on). x [B][H]: the hidden states behind
 * each row's last pair. normed: room for [B][H]. logits: room for [B][rows of `output`]. */
int64_t draft(const Model *head, const Linear *output, const int64_t *target_words, int64_t norm_output, Block *b,
              int64_t *starts, float *x, bf16 *normed, float *logits, int64_t *tokens, float *scores, int64_t steps,
              double floor, char *memory) {
    const int64_t B = b->rows, H = head->hidden;
    int64_t words[B];
    float log_probs[B];
    for (int64_t row = 0; row < B; row++) norm(x + row * H, head->final_norm, H, head->eps, normed + row * H);
    for (int64_t step = 0; step < steps; step++) {
        float most = -INFINITY;
        project(output, normed, B, logits, head->threads);
        best_words(logits, output->rows, B, words, log_probs);
        for (int64_t row = 0; row < B; row++) {
            float *score = scores + row * steps + step;
            *score = log_probs[row] + (step ? score[-1] : 0);
            most = *score > most ? *score : most;
            tokens[row * (1 + steps) + 1 + step] = words[row] = target_words[words[row]];
        }
        if (most < floor) return step;
        if (step + 1 == steps) break;
        for (int64_t i = 0; norm_output && i < B * H; i++) x[i] = widen(normed[i]);
        b->tokens = words;
        forward(head, b, x, 0, normed, memory);
        for (int64_t row = 0; row < B; row++) starts[row]++;
    }
    return steps;
}

void pack(const bf16 *from, bf16 *to, int64_t rows, int64_t cols) {
    for (int64_t row = 0; row < (rows + 15) / 16 * 16; row++)
        for (int64_t col = 0; col < cols; col++)
            to[((row / 16 * (cols / 2) + col / 2) * 16 + row % 16) * 2 + col % 2] =
                row < rows ? from[row * cols + col] : 0;
}
