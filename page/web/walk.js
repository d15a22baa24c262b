/* walk.js: runs the streams of a step with other durations than the plan's, for the sliders
 * of "what if". It is the walk of forecast/timeline.c and forecast/pipelined.c over what
 * page_walk.c lists: with a scale of 1 its result is the forecast's.
 *
 *   const time = parc.walk(plan, {matmul: 1, memory: 1, link: 2, nic: 1});
 *   time.seconds   the step's time if the links of a node were twice as fast
 *   time.byClass   the time of the compute stream by class of statement
 */
(function (parc) {
    'use strict';
    const RUN = 0, WAIT = 1, RECORD = 2, JOIN = 3;
    const COMPUTE = 0;
    /* Streams of collectives issue first: they have priority. */
    const ORDER = ['tensor', 'data', 'host', 'compute', 'transfer'];
    const LEAST_PART = 1e-6;
    const MEMORY = 0, LINK = 1, NIC = 2;

    /* ---- durations ---- */

    /* The scale of the part of the machine that limits the statement. */
    function scaleOf(kind, work, scale) {
        if (kind === 'matmul' || kind === 'attention') return scale.matmul;
        if (kind === 'collective' || kind === 'send')
            return work.use[NIC] > 0 ? scale.nic : scale.link;
        return kind === 'transfer' ? 1 : scale.memory;
    }

    /* The statements with their durations at this scale. A statement moves the same bytes in
     * its new duration, so its use of each resource changes too. */
    function scaledWork(plan, scale) {
        const factor = [scale.memory, scale.link, scale.nic, 1, 1];
        return plan.page.statements.map((work, i) => {
            const kind = plan.time.statements[i].class;
            const speed = scaleOf(kind, work, scale);
            const use = work.use.map((part, r) => part * speed / factor[r]);
            const most = Math.max(1, ...use); /* no resource gives more than all of it */
            return {
                kind, fills: work.fills, persistent: work.persistent,
                blocks: work.blocks, slowdown: work.slowdown,
                seconds: work.seconds / speed * most,
                use: use.map(part => part / most),
            };
        });
    }

    /* ---- the issue order of streams ---- */

    /* The tokens of a stream, from the list with repeats that page_walk.c prints. */
    function expand(list) {
        const all = [];
        for (let i = 0; i < list.length; i++) {
            if (list[i] >= 0) {
                all.push(list[i]);
                continue;
            }
            const from = all.length + list[i];
            const count = -list[i] * list[++i];
            for (let k = 0; k < count; k++) all.push(all[from + k]);
        }
        return all;
    }

    function newClock(plan, work, lists) {
        const walk = plan.page.walk;
        const names = plan.page.streams;
        const order = names.map((_, i) => i).sort(
            (a, b) => ORDER.indexOf(names[a]) - ORDER.indexOf(names[b]));
        return {
            walk, work, order, blocks: plan.page.blocks, now: 0,
            done: new Array(walk.records.length).fill(0),
            when: new Array(walk.records.length).fill(0),
            exposed: new Float64Array(work.length + 1),
            streams: lists.map(list => ({
                tokens: expand(list), at: 0, runs: -1, left: 0, speed: 1, ready: 0,
                awaits: -1, waited: new Map(), joins: 0, joining: false,
            })),
        };
    }

    /* Whether the stream is past a wait for the slot's record number `needed`. */
    function passesWait(clock, stream, slot, more) {
        const needed = (stream.waited.get(slot) || 0) + more;
        stream.awaits = clock.done[slot] < needed ? slot : -1;
        const seen = clock.when[slot] + clock.walk.constants.edge;
        if (stream.awaits < 0 && clock.done[slot] > 0 && seen > stream.ready)
            stream.ready = seen;
        if (stream.awaits < 0) stream.waited.set(slot, needed);
        return stream.awaits < 0;
    }

    function passesJoin(clock, stream) {
        if (!stream.joining) stream.joins++;
        stream.joining = true;
        if (clock.streams.some(other => other.joins < stream.joins)) return false;
        stream.joining = false;
        return true;
    }

    /* A collective cannot begin while a persistent matmul keeps all multiprocessors. */
    function isKeptOut(clock, work) {
        const compute = clock.streams[COMPUTE];
        return work.blocks > 0 && compute.runs >= 0 && clock.work[compute.runs].persistent;
    }

    /* Whether the stream is past its next token. */
    function issues(clock, stream) {
        const [kind, at, count] = clock.walk.tokens[stream.tokens[stream.at]];
        if (kind === JOIN) return passesJoin(clock, stream);
        if (kind === WAIT) return passesWait(clock, stream, at, count);
        if (kind === RECORD) {
            clock.done[at]++;
            clock.when[at] = clock.now;
        } else if (kind === RUN) {
            if (isKeptOut(clock, clock.work[at])) return false;
            stream.runs = at;
            stream.left = clock.work[at].seconds + clock.walk.constants.node;
        }
        return true;
    }

    function advance(clock, stream) {
        let moved = false;
        while (stream.runs < 0 && stream.at < stream.tokens.length &&
               stream.ready <= clock.now && issues(clock, stream)) {
            stream.at++;
            moved = true;
        }
        return moved;
    }

    function advanceAll(clock) {
        let moved = true;
        while (moved) {
            moved = false;
            for (const k of clock.order) moved = advance(clock, clock.streams[k]) || moved;
        }
    }

    /* ---- how fast what runs at one time is ---- */

    function slowdown(clock, stream) {
        const work = clock.work[stream.runs];
        let blocks = 0;
        for (const other of clock.streams)
            if (other !== stream && other.runs >= 0) blocks += clock.work[other.runs].blocks;
        if (!work.fills || blocks <= 0) return 1;
        const at = clock.blocks.indexOf(blocks);
        return work.slowdown[at < 0 ? work.slowdown.length - 1 : at];
    }

    /* The resource that is used up first if the speeds of `open` streams rise together, and
     * at which part of them. */
    function firstUsedUp(clock, running, fixed) {
        let first = -1, part = 1;
        for (let r = 0; r < 5; r++) {
            let used = 0, more = 0;
            for (const stream of running) {
                const amount = clock.work[stream.runs].use[r] * stream.speed;
                if (fixed.has(stream)) used += amount;
                else more += amount;
            }
            const rest = 1 - used;
            const at = more > 0 ? (rest > 0 ? rest / more : 0) : 1;
            if (at < part) {
                part = at;
                first = r;
            }
        }
        return [first, part];
    }

    function shareDevice(clock) {
        const running = clock.streams.filter(stream => stream.runs >= 0);
        const fixed = new Set();
        for (const stream of running) stream.speed = 1 / slowdown(clock, stream);
        for (;;) {
            const [resource, part] = firstUsedUp(clock, running, fixed);
            if (resource < 0) return;
            for (const stream of running)
                if (!fixed.has(stream) && clock.work[stream.runs].use[resource] > 0) {
                    stream.speed *= Math.max(part, LEAST_PART);
                    fixed.add(stream);
                }
        }
    }

    /* ---- time ---- */

    /* The statement that the compute stream waits for; -1: none. */
    function awaited(clock, stream) {
        for (let hops = 0; hops < clock.streams.length; hops++) {
            if (stream.awaits < 0 && !stream.joining) return -1;
            const on = stream.awaits >= 0
                ? clock.streams[clock.walk.records[stream.awaits]]
                : clock.streams.find(other => other.runs >= 0);
            if (!on || on.runs >= 0) return on ? on.runs : -1;
            stream = on;
        }
        return -1;
    }

    function nextChange(clock) {
        let least = Infinity;
        for (const s of clock.streams) {
            const ended = s.at >= s.tokens.length;
            if (s.runs >= 0) least = Math.min(least, s.left / s.speed);
            else if (!ended && s.ready > clock.now)
                least = Math.min(least, s.ready - clock.now);
        }
        return least;
    }

    function passTime(clock, t) {
        const compute = clock.streams[COMPUTE];
        const at = compute.runs >= 0 ? compute.runs : awaited(clock, compute);
        clock.exposed[at < 0 ? clock.work.length : at] += t;
        clock.now += t;
        for (const s of clock.streams) {
            if (s.runs < 0) {
                if (s.ready > clock.now && s.ready - clock.now <= 1e-15 * clock.now)
                    s.ready = clock.now;
                continue;
            }
            s.left -= t * s.speed;
            if (s.left <= 1e-12 * clock.work[s.runs].seconds) s.runs = -1;
        }
    }

    /* The time of a part of the step, and what the compute stream spends on each statement;
     * last: on none. */
    function runPart(plan, work, lists) {
        const clock = newClock(plan, work, lists);
        for (;;) {
            advanceAll(clock);
            if (clock.streams.every(s => s.runs < 0 && s.at >= s.tokens.length)) break;
            shareDevice(clock);
            const t = nextChange(clock);
            if (t === Infinity) throw new Error('the streams wait for each other');
            passTime(clock, t);
        }
        return {seconds: clock.now, exposed: clock.exposed};
    }

    function classTimes(work, exposed) {
        const byClass = {};
        work.forEach((w, i) => {
            byClass[w.kind] = (byClass[w.kind] || 0) + exposed[i];
        });
        return byClass;
    }

    parc.walk = function (plan, scale) {
        const walk = plan.page.walk;
        const work = scaledWork(plan, scale);
        const run = lists => runPart(plan, work, lists);
        const part = walk.step ? run(walk.step) : parc.replay(plan, scale, run);
        return {
            seconds: part.seconds + walk.constants.step,
            byClass: classTimes(work, part.exposed),
            between: part.exposed[work.length] + walk.constants.step,
            bubble: part.bubble || 0,
        };
    };
})(window.parc);
