/* errors.js: records errors of the page and shows them.
 *
 * The scripts of the page share one namespace, window.parc. Tests read
 * window.parcPage: ready is true once all parts are drawn, errors has a text for
 * each error. This file is the first, so that errors of the others are recorded.
 */
(function () {
    'use strict';
    window.parc = window.parc || {};
    window.parcPage = {ready: false, errors: []};

    function report(text) {
        window.parcPage.errors.push(text);
        const box = document.getElementById('errors');
        if (!box)
            return;
        const line = document.createElement('p');
        line.textContent = 'Error in this page: ' + text;
        box.appendChild(line);
        box.hidden = false;
    }

    window.onerror = function (message, file, line, column, error) {
        const at = error && error.stack ? error.stack.split('\n')[1] || '' : '';
        report(message + ' (line ' + line + ')' + (at ? ' ' + at.trim() : ''));
        return false;
    };
    window.addEventListener('unhandledrejection', function (event) {
        report(String(event.reason));
    });
    window.parc.report = report;
})();
