/* The event loop of messages that share links: what event_loop.py computes, to the last bit.

   Plain C99 without Python: event_loop.py is the reference, and compiled_loop.py calls this file with arrays of numpy.
   Sums are made in the order of the reference. Compile without fast arithmetic and without fused operations. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SAME 1e-13      /* as in event_loop.py */
#define NOTHING 1e-15
#define NEVER 1e30
#define SAME_RATE 1e-12 /* as in link_sharing.py */

#define BLOCK 64
#define CAREFUL (1 + 1e-6)

enum { FINE, STALLED, NO_MEMORY, TOO_LONG };

typedef struct Exchange Exchange;

typedef struct {
    Exchange *exchange;
    double nbytes, latency, not_before, began, ended;
    int64_t pair, first_edge, last_edge;
    int32_t type, into, waits;
} Flow;

typedef struct { int64_t to, next; double delay; } Edge; /* flow `to` may begin `delay` after the end of this one */

struct Exchange {
    int64_t number, flows, left, edges, room, places;
    double turn, *have;
    Flow *flow;
    Edge *edge;
    Exchange *before, *after; /* the exchanges under way */
};

typedef struct { double key; int64_t order; Flow *flow; } Entry;
typedef struct { Entry *entry; int64_t count, room; } Heap; /* sorted by key, then order; also used as a plain list */
typedef struct { Heap behind; int busy; } Pair;
typedef struct { double *value; int64_t count, room; } Numbers;

typedef struct { int64_t *type, count; char *has; } Types; /* each once */

/* Of messages: entry i, one flow of type type_of[i] stands for messages[i] messages on each link of class link_of[i];
   the entries of type t are first[t] to first[t + 1]. Of changes: links of change i are change_first[i] to ... */
typedef struct {
    int64_t types, links, entries, incasts, changes, has_buckets, keep, most_work;
    const int64_t *type_of, *link_of, *first, *change_first, *change_link;
    const double *messages, *limit, *arriving, *incast_count, *incast_share, *extra, *depth;
    const double *change_time, *change_factor, *stated;
    double *capacity, *active, *rate, *served, *next, *content;
} Setup;

/* One exchange of `rounds` rounds; round r has count[r] classes of messages and is repeated repeat[r] times. */
typedef struct {
    int64_t rounds, flows, places, outs, intos;
    const int64_t *count, *repeat, *type, *out_place, *out, *into_place, *into, *pair, *place_first, *place_into;
    const double *size, *latency;
} Programme;

typedef struct { double clock, wake, due; int64_t ended; } Pause;

typedef struct {
    Setup s;
    double now;
    int64_t order, pending, unlike, work; /* unlike: types whose number of flows differs from `filled`; work: links that
                                             were looked at to share them */
    Heap timers, starting, ended, *queue;
    int64_t starting_head, freed_count, freed_room, *freed, pair_count;
    Pair *pair;
    Exchange *under_way;
    double *filled, *crossing, *crossed, *left, *share;
    int64_t *rising;
    Numbers times, row_of, rows;
    Types check, touched; /* types that may be served, and types that `first` does not count */
    double first;         /* seconds until the first flow ends */
    int known, fresh, counted, stale; /* known: `rate` fits `filled`; fresh: `rows` has a row for it; counted: `first`
                                         is of these rates; stale: all types may be served */
} Loop;

static int is_before(Entry a, Entry b) { return a.key < b.key || (a.key == b.key && a.order < b.order); }

static int append(Heap *heap, Entry entry)
{
    if (heap->count == heap->room) {
        int64_t room = heap->room ? 2 * heap->room : 8;
        Entry *grown = realloc(heap->entry, (size_t)room * sizeof *grown);
        if (!grown) return NO_MEMORY;
        heap->entry = grown;
        heap->room = room;
    }
    heap->entry[heap->count++] = entry;
    return FINE;
}

static int push(Heap *heap, double key, int64_t order, Flow *flow)
{
    Entry entry = {key, order, flow};
    if (append(heap, entry)) return NO_MEMORY;
    int64_t at = heap->count - 1;
    while (at && is_before(entry, heap->entry[(at - 1) / 2])) {
        heap->entry[at] = heap->entry[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap->entry[at] = entry;
    return FINE;
}

static Entry pop(Heap *heap)
{
    Entry first = heap->entry[0], last = heap->entry[--heap->count];
    int64_t at = 0, child;
    while ((child = 2 * at + 1) < heap->count) {
        if (child + 1 < heap->count && is_before(heap->entry[child + 1], heap->entry[child])) child++;
        if (!is_before(heap->entry[child], last)) break;
        heap->entry[at] = heap->entry[child];
        at = child;
    }
    if (heap->count) heap->entry[at] = last;
    return first;
}

static int append_number(Numbers *numbers, double value)
{
    if (numbers->count == numbers->room) {
        int64_t room = numbers->room ? 2 * numbers->room : 64;
        double *grown = realloc(numbers->value, (size_t)room * sizeof *grown);
        if (!grown) return NO_MEMORY;
        numbers->value = grown;
        numbers->room = room;
    }
    numbers->value[numbers->count++] = value;
    return FINE;
}

static void add_type(Types *types, int64_t type)
{
    if (types->has[type]) return;
    types->has[type] = 1;
    types->type[types->count++] = type;
}

static void forget_types(Types *types)
{
    while (types->count) types->has[types->type[--types->count]] = 0;
}

static int compare(const void *a, const void *b)
{
    int64_t first = *(const int64_t *)a, second = *(const int64_t *)b;
    return (first > second) - (first < second);
}

/* ---- rates and token buckets ---- */

static void load_links(const Loop *loop, double *load)
{
    const Setup *s = &loop->s;
    memset(load, 0, (size_t)s->links * sizeof *load);
    for (int64_t i = 0; i < s->entries; i++) {
        int64_t type = s->type_of[i];
        load[s->link_of[i]] += s->active[type] * s->rate[type] * s->messages[i];
    }
}

static double share_under_incast(const Setup *s, double crossing)
{
    const double *x = s->incast_count, *y = s->incast_share;
    int64_t last = s->incasts - 1, at = 0;
    if (crossing < x[0]) return y[0];
    if (crossing >= x[last]) return y[last];
    while (x[at + 1] <= crossing) at++;
    if (x[at] == crossing) return y[at];
    return (y[at + 1] - y[at]) / (x[at + 1] - x[at]) * (crossing - x[at]) + y[at];
}

/* Progressive filling, as link_sharing.py has it. */
static void fill_links(Loop *loop)
{
    const Setup *s = &loop->s;
    double *crossing = loop->crossing, *left = loop->left, *share = loop->share, *crossed = loop->crossed;
    int64_t rising = 0;
    memset(crossing, 0, (size_t)s->links * sizeof *crossing);
    for (int64_t i = 0; i < s->entries; i++) crossing[s->link_of[i]] += s->active[s->type_of[i]] * s->messages[i];
    for (int64_t link = 0; link < s->links; link++) {
        left[link] = s->capacity[link];
        if (s->incasts && s->arriving[link] > 0 && crossing[link] > 0)
            left[link] = s->capacity[link] * share_under_incast(s, crossing[link]);
    }
    for (int64_t type = 0; type < s->types; type++) {
        s->rate[type] = 0;
        if (s->active[type] > 0) loop->rising[rising++] = type;
    }
    while (rising) {
        double level = INFINITY;
        int64_t kept = 0;
        loop->work += s->links;
        for (int64_t link = 0; link < s->links; link++) {
            share[link] = crossing[link] > 0 ? left[link] / crossing[link] : INFINITY;
            if (share[link] < level) level = share[link];
        }
        for (int64_t i = 0; i < rising; i++)
            if (s->limit[loop->rising[i]] < level) level = s->limit[loop->rising[i]];
        double bound = level * (1 + SAME_RATE);
        memset(crossed, 0, (size_t)s->links * sizeof *crossed);
        for (int64_t i = 0; i < rising; i++) {
            int64_t type = loop->rising[i], first = s->first[type], last = s->first[type + 1];
            int stops = s->limit[type] <= bound;
            for (int64_t each = first; each < last && !stops; each++) stops = share[s->link_of[each]] <= bound;
            if (!stops) {
                loop->rising[kept++] = type;
                continue;
            }
            for (int64_t each = first; each < last; each++)
                crossed[s->link_of[each]] += s->active[type] * s->messages[each];
            s->rate[type] = level;
        }
        rising = kept;
        for (int64_t link = 0; rising && link < s->links; link++) {
            if (crossed[link] == 0) continue;
            crossing[link] -= crossed[link];
            double rest = left[link] - crossed[link] * level;
            left[link] = rest > 0 ? rest : 0.0;
        }
    }
}

static void fill_buckets(Loop *loop, double seconds)
{
    const Setup *s = &loop->s;
    double *load = loop->crossing;
    load_links(loop, load);
    for (int64_t link = 0; link < s->links; link++) {
        double spare = s->capacity[link] - load[link];
        double content = s->content[link] + (spare > 0 ? spare : 0.0) * seconds;
        s->content[link] = content < s->depth[link] ? content : s->depth[link];
    }
}

/* Take off the bytes of messages that start together and pass at once: an even share of what the buckets hold. */
static void empty_buckets(Loop *loop, int64_t from, int64_t to)
{
    const Setup *s = &loop->s;
    double *wanted = loop->crossing, *left = loop->left;
    memset(wanted, 0, (size_t)s->links * sizeof *wanted);
    memset(left, 0, (size_t)s->links * sizeof *left);
    for (int64_t f = from; f < to; f++) {
        int64_t type = loop->starting.entry[f].flow->type;
        for (int64_t i = s->first[type]; i < s->first[type + 1]; i++) wanted[s->link_of[i]] += s->messages[i];
    }
    for (int64_t f = from; f < to; f++) {
        Flow *flow = loop->starting.entry[f].flow;
        double most = flow->nbytes - s->extra[flow->type], share = INFINITY;
        for (int64_t i = s->first[flow->type]; i < s->first[flow->type + 1]; i++) {
            double each = s->content[s->link_of[i]] / wanted[s->link_of[i]];
            if (each < share) share = each;
        }
        double passed = share < most ? share : most;
        for (int64_t i = s->first[flow->type]; i < s->first[flow->type + 1]; i++)
            left[s->link_of[i]] += (share - passed) * s->messages[i];
        flow->nbytes -= passed;
    }
    for (int64_t link = 0; link < s->links; link++)
        if (wanted[link] > 0) s->content[link] = left[link];
}

static void change_links(Loop *loop, int64_t change)
{
    const Setup *s = &loop->s;
    for (int64_t i = s->change_first[change]; i < s->change_first[change + 1]; i++)
        s->capacity[s->change_link[i]] = s->stated[s->change_link[i]] * s->change_factor[change];
    loop->pending--;
    loop->known = 0;
}

/* ---- flows ---- */

static void count_flows(Loop *loop, int64_t type, double by)
{
    double *active = loop->s.active;
    loop->unlike -= active[type] != loop->filled[type];
    active[type] += by;
    loop->unlike += active[type] != loop->filled[type];
}

static int end_flow(Loop *loop, Flow *flow)
{
    Exchange *exchange = flow->exchange;
    double arrived = loop->now + flow->latency;
    flow->ended = loop->now;
    if (arrived > exchange->have[flow->into]) exchange->have[flow->into] = arrived;
    for (int64_t e = flow->first_edge; e >= 0; e = exchange->edge[e].next) {
        Flow *other = exchange->flow + exchange->edge[e].to;
        double begin = loop->now + exchange->edge[e].delay;
        if (begin > other->not_before) other->not_before = begin;
        if (!--other->waits && push(&loop->timers, other->not_before, loop->order++, other)) return NO_MEMORY;
    }
    Pair *pair = loop->pair + flow->pair;
    if (!pair->behind.count)
        pair->busy = 0;
    else if (pair->behind.entry[0].key <= exchange->turn) {
        if (append(&loop->starting, pop(&pair->behind))) return NO_MEMORY;
    } else { /* the next message of the same exchange may be due at this very instant */
        if (loop->freed_count == loop->freed_room) {
            int64_t room = loop->freed_room ? 2 * loop->freed_room : 8;
            int64_t *grown = realloc(loop->freed, (size_t)room * sizeof *grown);
            if (!grown) return NO_MEMORY;
            loop->freed = grown;
            loop->freed_room = room;
        }
        loop->freed[loop->freed_count++] = flow->pair;
    }
    if (--exchange->left) return FINE;
    return append(&loop->ended, (Entry){0.0, exchange->number, exchange->flow});
}

static int start_flow(Loop *loop, Flow *flow)
{
    const Setup *s = &loop->s;
    flow->began = loop->now;
    if (flow->nbytes == 0) return end_flow(loop, flow);
    Heap *queue = loop->queue + flow->type;
    if (!queue->count) s->served[flow->type] = 0.0;
    if (push(queue, s->served[flow->type] + flow->nbytes, loop->order++, flow)) return NO_MEMORY;
    s->next[flow->type] = queue->entry[0].key;
    add_type(&loop->check, flow->type);
    add_type(&loop->touched, flow->type);
    count_flows(loop, flow->type, 1.0);
    return FINE;
}

static int is_served(const Loop *loop, int64_t type)
{
    const Setup *s = &loop->s;
    double next = s->next[type];
    return next - s->served[type] <= s->rate[type] * (loop->now * SAME) + next * SAME + NOTHING;
}

static int end_served(Loop *loop, int64_t type)
{
    Heap *queue = loop->queue + type;
    while (queue->count && is_served(loop, type)) {
        Flow *flow = pop(queue).flow;
        count_flows(loop, type, -1.0);
        loop->s.next[type] = queue->count ? queue->entry[0].key : NEVER;
        if (end_flow(loop, flow)) return NO_MEMORY;
    }
    return FINE;
}

static int record(Loop *loop)
{
    const Setup *s = &loop->s;
    if (!loop->fresh) {
        double *load = loop->crossing;
        load_links(loop, load);
        for (int64_t link = 0; link < s->links; link++)
            if (append_number(&loop->rows, load[link])) return NO_MEMORY;
        loop->fresh = 1;
    }
    double row = (double)(s->links ? loop->rows.count / s->links - 1 : 0);
    return append_number(&loop->times, loop->now) || append_number(&loop->row_of, row) ? NO_MEMORY : FINE;
}

static int share_links(Loop *loop)
{
    const Setup *s = &loop->s;
    if (loop->known && !loop->unlike) return FINE;
    fill_links(loop);
    if (loop->work > loop->s.most_work) return TOO_LONG;
    memcpy(loop->filled, s->active, (size_t)s->types * sizeof *s->active);
    loop->known = 1;
    loop->unlike = loop->fresh = loop->counted = 0;
    loop->stale = 1;
    if (loop->pending) return FINE;
    for (int64_t type = 0; type < s->types; type++)
        if (s->active[type] > 0 && s->rate[type] <= 0) return STALLED;
    return FINE;
}

/* End the flows that have been served, type by type; whether there were any, or -1 without memory. */
static int end_all_served(Loop *loop)
{
    Types *check = &loop->check;
    int over = 0;
    for (int64_t type = 0; loop->stale && type < loop->s.types; type++) add_type(check, type);
    loop->stale = 0;
    if (check->count > 1) qsort(check->type, (size_t)check->count, sizeof *check->type, compare);
    for (int64_t i = 0; i < check->count; i++) {
        if (!is_served(loop, check->type[i])) continue;
        over = 1;
        loop->counted = 0; /* the first end that is known may be of a flow that ends here */
        if (end_served(loop, check->type[i])) return -1;
    }
    forget_types(check);
    return over;
}

/* Start and end flows until nothing more is due now. */
static int process(Loop *loop)
{
    double near = loop->now * (1 + SAME);
    int changed = 0, over, code;
    do {
        while (loop->timers.count && loop->timers.entry[0].key <= near) {
            Entry entry = pop(&loop->timers);
            changed = 1;
            if (!entry.flow) {
                change_links(loop, entry.order);
                continue;
            }
            Pair *pair = loop->pair + entry.flow->pair;
            if (pair->busy) {
                if (push(&pair->behind, entry.flow->exchange->turn, loop->order++, entry.flow)) return NO_MEMORY;
            } else {
                pair->busy = 1;
                if (append(&loop->starting, entry)) return NO_MEMORY;
            }
        }
        while (loop->freed_count)
            if (append(&loop->starting, pop(&loop->pair[loop->freed[--loop->freed_count]].behind))) return NO_MEMORY;
        while (loop->starting_head < loop->starting.count) {
            int64_t together = loop->starting.count;
            if (loop->s.has_buckets) empty_buckets(loop, loop->starting_head, together);
            while (loop->starting_head < together)
                if (start_flow(loop, loop->starting.entry[loop->starting_head++].flow)) return NO_MEMORY;
        }
        loop->starting_head = loop->starting.count = 0;
        if ((over = end_all_served(loop)) < 0) return NO_MEMORY;
        changed |= over;
    } while (over || loop->starting.count || loop->freed_count
             || (loop->timers.count && loop->timers.entry[0].key <= near));
    if (!changed) return FINE;
    if ((code = share_links(loop))) return code;
    return loop->s.keep ? record(loop) : FINE;
}

static void count_first(Loop *loop, int64_t type)
{
    const Setup *s = &loop->s;
    double left = s->next[type] - s->served[type];
    if (s->rate[type] > 0 && left / s->rate[type] < loop->first) loop->first = left / s->rate[type];
}

/* When the next flow ends or starts. */
static double find_due(Loop *loop)
{
    double timer = loop->timers.count ? loop->timers.entry[0].key : INFINITY;
    if (!loop->counted) {
        loop->first = INFINITY;
        loop->counted = 1;
        for (int64_t type = 0; type < loop->s.types; type++) count_first(loop, type);
    }
    for (int64_t i = 0; i < loop->touched.count; i++) count_first(loop, loop->touched.type[i]);
    forget_types(&loop->touched);
    return timer < loop->now + loop->first ? timer : loop->now + loop->first;
}

/* ---- what Python calls ---- */

static int64_t bits_of(double value)
{
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Serve `count` types for some seconds; whether any may be served then, or in fewer seconds than `bound`.
   A difference below 0 has its first bit set, so that processors handle several types at once; what may be served is
   rounded up by CAREFUL, and looked at again by the caller. */
static int serve_block(const double *restrict rate, const double *restrict next, double *restrict served, int64_t count,
                       double seconds, double near, double bound)
{
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++) {
        double now = served[i] + rate[i] * seconds, left = next[i] - now;
        double slack = rate[i] * (near * CAREFUL) + next[i] * (SAME * CAREFUL) + NOTHING * CAREFUL;
        served[i] = now;
        found |= bits_of(left - slack) | bits_of(left - bound * rate[i]);
    }
    return found < 0;
}

/* One pass over the types brings them to `time`, finds which may be served then, and when the first of the others is. */
void loop_advance(Loop *loop, double time)
{
    const Setup *s = &loop->s;
    double seconds = time - loop->now, near = time * SAME, bound = INFINITY;
    if (!(time > loop->now)) return;
    loop->first = INFINITY;
    for (int64_t block = 0; block < s->types; block += BLOCK) {
        int64_t end = block + BLOCK < s->types ? block + BLOCK : s->types;
        if (!serve_block(s->rate + block, s->next + block, s->served + block, end - block, seconds, near, bound)) continue;
        for (int64_t type = block; type < end; type++) {
            if (s->next[type] - s->served[type] <= s->rate[type] * near + s->next[type] * SAME + NOTHING) {
                add_type(&loop->check, type);
                add_type(&loop->touched, type);
            } else {
                count_first(loop, type);
            }
        }
        bound = loop->first * (1 + SAME);
    }
    loop->counted = 1;
    loop->stale = 0;
    if (s->has_buckets) fill_buckets(loop, seconds);
    loop->now = time;
}

/* Handle all that is due, and go on while what is due next comes before `until` and no exchange has ended. */
int loop_follow(Loop *loop, double until, Pause *pause)
{
    for (;;) {
        int code = process(loop);
        if (code) return code;
        pause->due = find_due(loop);
        pause->wake = pause->clock + (pause->due > pause->clock ? pause->due - pause->clock : 0.0);
        pause->ended = loop->ended.count;
        if (pause->ended) loop->work = 0;
        if (pause->ended || !(pause->wake < until)) return FINE;
        pause->clock = pause->wake;
        loop_advance(loop, pause->due);
    }
}

static void free_exchange(Exchange *exchange)
{
    free(exchange->have);
    free(exchange->flow);
    free(exchange->edge);
    free(exchange);
}

void loop_free(Loop *loop)
{
    if (!loop) return;
    for (Exchange *after, *each = loop->under_way; each; each = after) {
        after = each->after;
        free_exchange(each);
    }
    for (int64_t type = 0; loop->queue && type < loop->s.types; type++) free(loop->queue[type].entry);
    for (int64_t pair = 0; pair < loop->pair_count; pair++) free(loop->pair[pair].behind.entry);
    void *parts[] = {loop->timers.entry, loop->starting.entry, loop->ended.entry, loop->queue, loop->freed, loop->pair,
                     loop->filled, loop->crossing, loop->crossed, loop->left, loop->share, loop->rising,
                     loop->check.type, loop->check.has, loop->touched.type, loop->touched.has,
                     loop->times.value, loop->row_of.value, loop->rows.value};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) free(parts[i]);
    free(loop);
}

/* A loop that starts at `now`, with the steady flows that `active` states already; NULL without memory. */
Loop *loop_new(const Setup *setup, double now)
{
    Loop *loop = calloc(1, sizeof *loop);
    if (!loop) return NULL;
    loop->s = *setup;
    size_t types = (size_t)setup->types + 1, links = (size_t)setup->links + 1;
    void *parts[] = {loop->queue = calloc(types, sizeof *loop->queue), loop->filled = calloc(types, sizeof(double)),
                     loop->crossing = calloc(links, sizeof(double)), loop->crossed = calloc(links, sizeof(double)),
                     loop->left = calloc(links, sizeof(double)), loop->share = calloc(links, sizeof(double)),
                     loop->rising = calloc(types, sizeof(int64_t)),
                     loop->check.type = calloc(types, sizeof(int64_t)), loop->check.has = calloc(types, 1),
                     loop->touched.type = calloc(types, sizeof(int64_t)), loop->touched.has = calloc(types, 1)};
    int fine = 1;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) fine = fine && parts[i];
    for (int64_t change = 0; fine && change < setup->changes; change++)
        fine = !push(&loop->timers, setup->change_time[change], loop->order++, NULL);
    if (!fine) {
        loop_free(loop);
        return NULL;
    }
    loop->now = now;
    loop->pending = setup->changes;
    for (size_t type = 0; type + 1 < types; type++)
        if (setup->active[type] > 0) loop->unlike++;
    if (loop->unlike) {
        fill_links(loop);
        memcpy(loop->filled, setup->active, (types - 1) * sizeof(double));
        loop->unlike = 0;
    }
    loop->known = loop->stale = 1;
    return loop;
}

static int add_edge(Exchange *exchange, int64_t from, int64_t to, double delay)
{
    if (exchange->edges == exchange->room) {
        int64_t room = exchange->room ? exchange->room + exchange->room / 2 : 64;
        Edge *grown = realloc(exchange->edge, (size_t)room * sizeof *grown);
        if (!grown) return NO_MEMORY;
        exchange->edge = grown;
        exchange->room = room;
    }
    Flow *flow = exchange->flow + from;
    int64_t edge = exchange->edges++;
    exchange->edge[edge] = (Edge){to, -1, delay};
    if (flow->last_edge < 0) flow->first_edge = edge;
    else exchange->edge[flow->last_edge].next = edge;
    flow->last_edge = edge;
    exchange->flow[to].waits++;
    return FINE;
}

/* All flows of the exchange, linked to the flows that wait for them, as event_loop.py has it. `sent` and `received` are
   the first flows of lists, by the links at each end; `after_sent` and `after_received` go on with them. */
static int unroll(Exchange *exchange, const Programme *p, const double *scales, const double *extra, int64_t first_pair,
                  int64_t *sent, int64_t *received, int64_t *after_sent, int64_t *after_received)
{
    int64_t at = 0, offset = 0;
    for (int64_t round = 0; round < p->rounds; offset += p->count[round++])
        for (int64_t again = 0; again < p->repeat[round]; again++, at += p->count[round]) {
            for (int64_t i = 0; i < p->count[round]; i++) {
                int64_t c = offset + i, other;
                Flow *flow = exchange->flow + at + i;
                flow->exchange = exchange;
                flow->type = (int32_t)p->type[c];
                flow->into = (int32_t)p->into_place[c];
                flow->nbytes = p->size[c] * scales[round] + extra[p->type[c]];
                flow->latency = p->latency[c];
                flow->pair = first_pair + p->pair[c];
                flow->not_before = exchange->have[p->out_place[c]];
                flow->ended = -1.0;
                flow->first_edge = flow->last_edge = -1;
                for (int64_t k = p->place_first[p->out_place[c]]; k < p->place_first[p->out_place[c] + 1]; k++)
                    for (other = received[p->place_into[k]]; other >= 0; other = after_received[other])
                        if (add_edge(exchange, other, at + i, exchange->flow[other].latency)) return NO_MEMORY;
                for (other = sent[p->out[c]]; other >= 0; other = after_sent[other])
                    if (add_edge(exchange, other, at + i, 0.0)) return NO_MEMORY;
                /* The last link is free once the message before has arrived. */
                for (other = received[p->into[c]]; other >= 0; other = after_received[other]) {
                    double later = exchange->flow[other].latency - flow->latency;
                    if (add_edge(exchange, other, at + i, later > 0 ? later : 0.0)) return NO_MEMORY;
                }
            }
            for (int64_t i = 0; i < p->count[round]; i++) sent[p->out[offset + i]] = received[p->into[offset + i]] = -1;
            for (int64_t i = 0; i < p->count[round]; i++) {
                after_sent[at + i] = sent[p->out[offset + i]];
                after_received[at + i] = received[p->into[offset + i]];
                sent[p->out[offset + i]] = received[p->into[offset + i]] = at + i;
            }
        }
    return FINE;
}

/* Add an exchange; `begin` (places,) are the times at which classes of places are ready. */
int loop_start(Loop *loop, const Programme *p, int64_t number, const double *scales, const double *begin, double turn,
               int64_t first_pair, int64_t pairs)
{
    if (first_pair + pairs > loop->pair_count) {
        Pair *grown = realloc(loop->pair, (size_t)(first_pair + pairs) * sizeof *grown);
        if (!grown) return NO_MEMORY;
        memset(grown + loop->pair_count, 0, (size_t)(first_pair + pairs - loop->pair_count) * sizeof *grown);
        loop->pair = grown;
        loop->pair_count = first_pair + pairs;
    }
    Exchange *exchange = calloc(1, sizeof *exchange);
    if (!exchange) return NO_MEMORY;
    exchange->number = number;
    exchange->flows = exchange->left = p->flows;
    exchange->places = p->places;
    exchange->turn = turn;
    exchange->after = loop->under_way;
    if (loop->under_way) loop->under_way->before = exchange;
    loop->under_way = exchange;
    exchange->have = malloc(((size_t)p->places + 1) * sizeof(double));
    exchange->flow = calloc((size_t)p->flows + 1, sizeof(Flow));
    int64_t lists = p->outs + p->intos, *work = malloc((size_t)(lists + 2 * p->flows + 1) * sizeof *work);
    int code = exchange->have && exchange->flow && work ? FINE : NO_MEMORY;
    if (!code) {
        memcpy(exchange->have, begin, (size_t)p->places * sizeof(double));
        for (int64_t i = 0; i < lists; i++) work[i] = -1;
        code = unroll(exchange, p, scales, loop->s.extra, first_pair, work, work + p->outs, work + lists,
                      work + lists + p->flows);
    }
    free(work);
    for (int64_t i = 0; !code && i < p->flows; i++)
        if (!exchange->flow[i].waits)
            code = push(&loop->timers, exchange->flow[i].not_before, loop->order++, exchange->flow + i);
    return code;
}

/* The first exchange that has ended: copy when places have what they wait for, and when flows began and ended; then
   forget it. Returns its number. */
int64_t loop_take(Loop *loop, double *have, double *began, double *ended)
{
    Exchange *exchange = loop->ended.entry[0].flow->exchange;
    int64_t number = exchange->number;
    memmove(loop->ended.entry, loop->ended.entry + 1, (size_t)--loop->ended.count * sizeof(Entry));
    memcpy(have, exchange->have, (size_t)exchange->places * sizeof(double));
    for (int64_t i = 0; i < exchange->flows; i++) {
        began[i] = exchange->flow[i].began;
        ended[i] = exchange->flow[i].ended;
    }
    if (exchange->before) exchange->before->after = exchange->after;
    else loop->under_way = exchange->after;
    if (exchange->after) exchange->after->before = exchange->before;
    free_exchange(exchange);
    return number;
}

int64_t loop_recorded(const Loop *loop, const double **times, const double **row_of, const double **rows)
{
    *times = loop->times.value;
    *row_of = loop->row_of.value;
    *rows = loop->rows.value;
    return loop->times.count;
}

int64_t loop_next(const Loop *loop) { return loop->ended.count ? loop->ended.entry[0].order : -1; }

int loop_source(void) { return SOURCE; }
