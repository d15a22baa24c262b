/* replay.js: the time of a pipeline whose actions take other times: the replay of
 * forecast/pipelined.c, for walk.js. */
(function (parc) {
    'use strict';
    const SEND = 3, RECEIVE = 4;
    const isTransfer = action => action[0] >= SEND;

    /* The next action of a rank that computes, or transfers. */
    function nextAction(rank, transfers) {
        let i = transfers ? rank.transferred : rank.computed;
        while (i < rank.actions.length && isTransfer(rank.actions[i]) !== transfers) i++;
        return i < rank.actions.length ? i : -1;
    }

    function passAction(rank, i) {
        if (isTransfer(rank.actions[i])) rank.transferred = i + 1;
        else rank.computed = i + 1;
    }

    /* With one stream: whether all that precedes an action on its rank has been done. */
    function isNext(state, rank, i) {
        const other = nextAction(rank, !isTransfer(rank.actions[i]));
        return !state.oneStream || other < 0 || other > i;
    }

    function received(state, [kind, stage, micro]) {
        if (kind === 0 && stage > 0) return state.stages[stage - 1].sent[0][micro];
        if (kind === 1 && stage + 1 < state.stages.length)
            return state.stages[stage + 1].sent[1][micro];
        return 0;
    }

    function computeNext(state, rank) {
        const i = nextAction(rank, false);
        if (i < 0 || !isNext(state, rank, i)) return false;
        const [kind, stage, micro] = rank.actions[i];
        const from = Math.max(received(state, rank.actions[i]), rank.compute);
        if (from === Infinity) return false;
        const own = state.stages[stage];
        rank.compute = from + own.action[kind].seconds;
        own.end[kind][micro] = rank.compute;
        passAction(rank, i);
        return true;
    }

    /* When the receiving stage's buffer for the receive i is free. As in the program, an
     * event that the rank records after the receive has no effect. */
    function bufferFree(state, rank, i, stage) {
        const [, , micro, gradient] = rank.actions[i];
        const freed = state.stages[stage].freed[gradient];
        const before = freed ? micro - freed[1] : -1;
        if (before < 0 || freed[0] < 0) return 0;
        const end = state.stages[stage].end[freed[0]][before];
        if (end !== Infinity) return end;
        for (let k = rank.computed; k < i; k++) {
            const [kind, at, which] = rank.actions[k];
            if (kind === freed[0] && at === stage && which === before) return end;
        }
        return 0;
    }

    /* With one stream: a rank that sends continues, and the receiver copies later. */
    function copyNext(state, rank) {
        const i = nextAction(rank, true);
        if (i < 0 || !isNext(state, rank, i)) return false;
        const [kind, stage, micro, gradient] = rank.actions[i];
        const from = state.stages[stage];
        if (kind === SEND) {
            from.offered[gradient][micro] = rank.compute;
        } else {
            if (from.offered[gradient][micro] === Infinity) return false;
            rank.compute = Math.max(from.offered[gradient][micro], rank.compute) +
                from.transfer[gradient];
            from.sent[gradient][micro] = rank.compute;
        }
        passAction(rank, i);
        return true;
    }

    function sameTransfer(a, b) {
        return a[1] === b[1] && a[2] === b[2] && a[3] === b[3];
    }

    function transferNext(state, rank) {
        if (state.oneStream) return copyNext(state, rank);
        const i = nextAction(rank, true);
        if (i < 0 || rank.actions[i][0] !== SEND) return false;
        const [, stage, micro, gradient] = rank.actions[i];
        const to = gradient ? stage - 1 : stage + 1;
        const other = state.ranks[to % state.ranks.length];
        const k = nextAction(other, true);
        if (k < 0 || other.actions[k][0] !== RECEIVE ||
            !sameTransfer(rank.actions[i], other.actions[k]))
            return false;
        const own = state.stages[stage];
        const from = Math.max(own.end[gradient][micro], bufferFree(state, other, k, to),
                              rank.transfer, other.transfer);
        if (from === Infinity) return false;
        const end = from + own.transfer[gradient];
        own.sent[gradient][micro] = rank.transfer = other.transfer = end;
        passAction(rank, i);
        passAction(other, k);
        return true;
    }

    function newState(plan, scale, run) {
        const walk = plan.page.walk;
        const micro = 1 + walk.ranks[0].actions.reduce((most, action) => Math.max(most, action[2]), 0);
        const unknown = () => new Array(micro).fill(Infinity);
        const parts = new Map(); /* stages that issue the same have the same times */
        const timed = lists => {
            const key = JSON.stringify(lists);
            if (!parts.has(key)) parts.set(key, run(lists));
            return parts.get(key);
        };
        const state = {
            oneStream: plan.page.streams.length < 2,
            stages: walk.stages.map(s => ({
                action: s.actions.map(timed), end: [unknown(), unknown(), unknown()],
                sent: [unknown(), unknown()], offered: [unknown(), unknown()],
                transfer: s.transfer.map((t, g) => t / (s.between[g] ? scale.nic : scale.link)),
                freed: s.freed,
            })),
            ranks: walk.ranks.map(r => ({
                actions: r.actions, computed: 0, transferred: 0,
                before: timed(r.before), after: timed(r.after),
            })),
        };
        for (const rank of state.ranks)
            rank.compute = rank.transfer = rank.before.seconds;
        return state;
    }

    function finish(state, together) {
        const busy = state.ranks.map(rank => {
            let seconds = rank.before.seconds + rank.after.seconds;
            for (const action of rank.actions)
                if (!isTransfer(action))
                    seconds += state.stages[action[1]].action[action[0]].seconds;
            return seconds;
        });
        let last = 0, after = 0;
        for (const rank of state.ranks) {
            const end = Math.max(rank.compute, rank.transfer);
            last = Math.max(last, end + (together ? 0 : rank.after.seconds));
            after = Math.max(after, rank.after.seconds);
        }
        let slowest = 0;
        busy.forEach((t, c) => {
            slowest = t > busy[slowest] ? c : slowest;
        });
        const seconds = last + (together ? after : 0);
        return {seconds, slowest, bubble: seconds - busy[slowest]};
    }

    /* The time of the slowest rank's compute stream by statement. */
    function exposedOf(state, rank) {
        const sum = rank.before.exposed.slice();
        const add = part => part.exposed.forEach((t, i) => {
            sum[i] += t;
        });
        add(rank.after);
        for (const action of rank.actions)
            if (!isTransfer(action)) add(state.stages[action[1]].action[action[0]]);
        return sum;
    }

    parc.replay = function (plan, scale, run) {
        const state = newState(plan, scale, run);
        let moved = true;
        while (moved) {
            moved = false;
            for (const rank of state.ranks)
                while (computeNext(state, rank) || transferNext(state, rank)) moved = true;
        }
        const end = finish(state, plan.page.walk.together);
        end.exposed = exposedOf(state, state.ranks[end.slowest]);
        return end;
    };
})(window.parc);
