"""browser.py: drives headless Chromium through its DevTools protocol.

The tests of the HTML page use it. It needs only the standard library: Chromium reads
commands from descriptor 3 and writes answers and events to descriptor 4, each a JSON
text that a zero byte ends (--remote-debugging-pipe). Chromium ends when the pipe is
closed, so also if this process is killed.

    with Browser(directory) as browser:
        page = browser.open('plan.html')
        page.click('#filter')
        assert not page.problems()

Every wait has a limit. A limit that is reached, an error of the protocol, and an
exception in an evaluated expression raise BrowserError.
"""
import base64
import fcntl
import json
import os
import pathlib
import select
import shutil
import signal
import time

PROGRAMS = ('chromium', 'chromium-browser', 'google-chrome-stable', 'google-chrome')
LIMIT = float(os.environ.get('PAGE_TIMEOUT', '60'))  # seconds for one answer

# Seconds from the start of the navigation until the page says that it is drawn. A timer
# polls, so that the test does not depend on how the page sets the variable.
WATCH = """(() => {
    const poll = () => {
        if (window.parcPage && window.parcPage.ready)
            window.secondsToReady = performance.now() / 1000;
        else
            setTimeout(poll, 1);
    };
    poll();
    window.violations = [];
    document.addEventListener('securitypolicyviolation', e =>
        window.violations.push(e.effectiveDirective + ' ' + e.blockedURI));
})()"""

# Names of keys that are no characters, with their Windows key codes.
KEYS = {'Escape': 27, 'Enter': 13, 'Tab': 9, 'ArrowLeft': 37, 'ArrowUp': 38,
        'ArrowRight': 39, 'ArrowDown': 40, 'Home': 36, 'End': 35, 'Backspace': 8}


class BrowserError(Exception):
    pass


def find_program():
    """The path of Chromium: $CHROMIUM, or the first of PROGRAMS on PATH, or None."""
    named = os.environ.get('CHROMIUM')
    names = (named,) if named else PROGRAMS
    return next(filter(None, map(shutil.which, names)), None)


def above(descriptor):
    """Moves a descriptor above 9, so that 3 and 4 are free for Chromium."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return moved


class Browser:
    """A Chromium with a temporary profile in a directory, which the caller removes."""

    def __init__(self, directory, program=None):
        self.directory = pathlib.Path(directory)
        self.program = program or find_program()
        if not self.program:
            raise BrowserError('no Chromium: install the package chromium, or set CHROMIUM')
        self.pid = None
        self.buffer = b''
        self.answers = {}
        self.pages = {}
        self.number = 0

    def __enter__(self):
        profile = self.directory / 'profile'
        profile.mkdir()
        argv = [self.program, '--headless=new', '--remote-debugging-pipe',
                f'--user-data-dir={profile}', '--host-resolver-rules=MAP * ~NOTFOUND',
                '--no-first-run', '--no-default-browser-check', '--disable-gpu',
                '--disable-background-networking', '--disable-component-update',
                '--disable-dev-shm-usage', '--disable-extensions', '--disable-sync',
                '--disable-crash-reporter', '--disable-default-apps', '--mute-audio',
                '--hide-scrollbars', '--force-color-profile=srgb']
        if os.geteuid() == 0:
            argv.append('--no-sandbox')
        environment = {**os.environ, 'HOME': str(self.directory)}
        read, ours = map(above, os.pipe())
        theirs, write = map(above, os.pipe())
        log = str(self.directory / 'chromium.log')
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self.pid = os.posix_spawn(self.program, argv, environment, setpgroup=0, file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, flags, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
            (os.POSIX_SPAWN_DUP2, read, 3), (os.POSIX_SPAWN_DUP2, write, 4)])
        os.close(read)
        os.close(write)
        self.to, self.back = ours, theirs
        try:
            self.version = self.call('Browser.getVersion')['product']
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        try:
            self.call('Browser.close', limit=5)
        except (BrowserError, OSError):
            pass
        os.close(self.to)
        os.close(self.back)
        end = time.monotonic() + 5
        while time.monotonic() < end:
            if os.waitpid(self.pid, os.WNOHANG)[0]:
                return
            time.sleep(0.02)
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        os.waitpid(self.pid, 0)

    def read(self, end, doing):
        """Reads one answer or event, until the time `end`."""
        while b'\0' not in self.buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.back], [], [], left)[0]:
                raise BrowserError(f'Chromium did not answer in time: {doing}')
            data = os.read(self.back, 1 << 20)
            if not data:
                raise BrowserError(f'Chromium ended: {doing}\n{self.log()}')
            self.buffer += data
        text, self.buffer = self.buffer.split(b'\0', 1)
        return json.loads(text)

    def log(self):
        try:
            return (self.directory / 'chromium.log').read_text(errors='replace')[-2000:]
        except OSError:
            return ''

    def call(self, method, params=None, session=None, limit=LIMIT):
        """Sends a command and returns its result."""
        self.number += 1
        number = self.number
        command = {'id': number, 'method': method, 'params': params or {}}
        if session:
            command['sessionId'] = session
        data = json.dumps(command).encode() + b'\0'
        end = time.monotonic() + limit
        while data:
            left = end - time.monotonic()
            if left <= 0 or not select.select([], [self.to], [], left)[1]:
                raise BrowserError(f'Chromium does not read its commands: {method}')
            try:
                data = data[os.write(self.to, data[:4096]):]
            except BrokenPipeError:
                raise BrowserError(f'Chromium ended: {method}\n{self.log()}') from None
        self.wait(lambda: number in self.answers, end, method)
        answer = self.answers.pop(number)
        if 'error' in answer:
            raise BrowserError(f'{method}: {answer["error"].get("message")}')
        return answer['result']

    def wait(self, condition, end, doing):
        """Reads until the condition is true or the time `end` is reached."""
        while not condition():
            message = self.read(end, doing)
            if 'id' in message:
                self.answers[message['id']] = message
            elif message.get('sessionId') in self.pages:
                self.pages[message['sessionId']].event(message['method'], message['params'])

    def open(self, path, **options):
        return Page(self, path, **options)


class Page:
    """A tab that shows a file.

    `fragment` is the part of the address after '#'. With ready=False, the constructor
    waits only for the load event. Without scripts, evaluate() cannot be used.
    """

    def __init__(self, browser, path, fragment='', width=1280, height=900, scripts=True,
                 ready=True, media=None, features=None):
        self.browser = browser
        self.url = pathlib.Path(path).resolve().as_uri()
        self.errors, self.requests, self.dialogs = [], [], []
        self.loaded = False
        self.target = browser.call('Target.createTarget', {'url': 'about:blank'})['targetId']
        self.session = browser.call('Target.attachToTarget', {
            'targetId': self.target, 'flatten': True})['sessionId']
        browser.pages[self.session] = self
        for domain in ('Page', 'Runtime', 'Network', 'Log'):
            self.call(f'{domain}.enable')
        self.call('Emulation.setFocusEmulationEnabled', {'enabled': True})
        self.viewport(width, height)
        if media or features:
            self.media(media, features)
        if scripts:
            self.call('Page.addScriptToEvaluateOnNewDocument', {'source': WATCH})
        else:
            self.call('Emulation.setScriptExecutionDisabled', {'value': True})
        address = self.url + ('#' + fragment if fragment else '')
        went = self.call('Page.navigate', {'url': address})
        if went.get('errorText'):
            raise BrowserError(f'{address}: {went["errorText"]}')
        end = time.monotonic() + LIMIT
        browser.wait(lambda: self.loaded, end, f'loading {address}')
        if scripts and ready:
            self.until('!!window.secondsToReady', 'window.parcPage.ready')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.browser.call('Target.closeTarget', {'targetId': self.target})
        del self.browser.pages[self.session]

    def call(self, method, params=None, limit=LIMIT):
        return self.browser.call(method, params, self.session, limit)

    def event(self, method, params):
        """Notes an event that the page's tests need."""
        if method == 'Page.loadEventFired':
            self.loaded = True
        elif method == 'Runtime.exceptionThrown':
            details = params['exceptionDetails']
            thrown = details.get('exception', {}).get('description', '')
            self.errors.append(f'{details["text"]} {thrown}'.strip())
        elif method == 'Runtime.consoleAPICalled' and params['type'] in ('error', 'assert'):
            self.errors.append('console: ' + ' '.join(
                str(a.get('value', a.get('description'))) for a in params['args']))
        elif method == 'Log.entryAdded' and params['entry']['level'] == 'error':
            self.errors.append('log: ' + params['entry']['text'])
        elif method == 'Network.requestWillBeSent':
            url = params['request']['url']
            if url.split('#')[0] != self.url and not url.startswith(('data:', 'blob:')):
                self.requests.append(url)
        elif method == 'Page.javascriptDialogOpening':
            self.dialogs.append(params['message'])
            self.browser.number += 1  # the answer to this command is not read
            command = {'id': self.browser.number, 'sessionId': self.session,
                       'method': 'Page.handleJavaScriptDialog', 'params': {'accept': True}}
            os.write(self.browser.to, json.dumps(command).encode() + b'\0')

    def problems(self):
        """Script errors, requests and dialogs, as texts."""
        self.evaluate('0')  # after all events that Chromium sent before
        found = self.errors + [f'request: {url}' for url in self.requests]
        found += [f'dialog: {text}' for text in self.dialogs]
        return found + self.evaluate(
            '(window.parcPage && window.parcPage.errors || []).map(String)')

    def evaluate(self, expression, **values):
        """The value of an expression, in which $name stands for the JSON of a value."""
        for name in sorted(values, key=len, reverse=True):
            expression = expression.replace('$' + name, json.dumps(values[name]))
        answer = self.call('Runtime.evaluate', {
            'expression': expression, 'returnByValue': True, 'awaitPromise': True,
            'userGesture': True})
        if 'exceptionDetails' in answer:
            details = answer['exceptionDetails']
            text = details.get('exception', {}).get('description', details['text'])
            raise BrowserError(f'{expression.strip()[:200]}: {text}')
        return answer['result'].get('value')

    def until(self, expression, doing, limit=None, **values):
        """Waits until the expression is true. Returns its value."""
        end = time.monotonic() + (limit or LIMIT)
        while True:
            value = self.evaluate(expression, **values)
            if value:
                return value
            if time.monotonic() > end:
                raise BrowserError(f'not reached in time: {doing}; errors: {self.errors}')
            time.sleep(0.02)

    def frames(self, count=2):
        """Waits for that number of drawn frames."""
        self.evaluate("""new Promise(done => { let n = $count;
            const next = () => n-- > 0 ? requestAnimationFrame(next) : done(); next(); })""",
                      count=count)

    def place(self, selector, x=0.5, y=0.5):
        """Scrolls to an element until the layout rests; returns a point in it, by parts of
        its size."""
        rect = self.evaluate("""(async () => {
            let old = '';
            for (let i = 0; i < 20; i++) {
                const e = document.querySelector($selector);
                if (!e) return null;
                e.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'});
                await new Promise(done => requestAnimationFrame(done));
                const r = e.getBoundingClientRect();
                const now = [r.left, r.top, r.width, r.height];
                if (String(now) === old) return now;
                old = String(now);
            }
            throw new Error($selector + ' moves all the time');
        })()""", selector=selector)
        if not rect:
            raise BrowserError(f'no element {selector}')
        if not rect[2] or not rect[3]:
            raise BrowserError(f'element {selector} is not visible')
        return rect[0] + rect[2] * x, rect[1] + rect[3] * y

    def mouse(self, kind, x, y, **more):
        self.call('Input.dispatchMouseEvent', {'type': kind, 'x': x, 'y': y, **more})

    def click(self, selector, x=0.5, y=0.5):
        at = self.place(selector, x, y)
        self.mouse('mouseMoved', *at)
        for kind in ('mousePressed', 'mouseReleased'):
            self.mouse(kind, *at, button='left', clickCount=1)
        self.frames()

    def hover(self, selector, x=0.5, y=0.5):
        self.mouse('mouseMoved', *self.place(selector, x, y))
        self.frames()

    def drag(self, selector, start, end):
        """Drags from one point of an element to another, given as parts of its size."""
        a, b = self.place(selector, *start), self.place(selector, *end)
        self.mouse('mouseMoved', *a)
        self.mouse('mousePressed', *a, button='left', clickCount=1)
        for i in range(1, 6):
            x, y = (p + (q - p) * i / 5 for p, q in zip(a, b))
            self.mouse('mouseMoved', x, y, button='left', buttons=1)
        self.mouse('mouseReleased', *b, button='left', clickCount=1)
        self.frames()

    def wheel(self, selector, delta, x=0.5, y=0.5, control=False):
        self.mouse('mouseWheel', *self.place(selector, x, y), deltaX=0, deltaY=delta,
                   modifiers=2 if control else 0)
        self.frames()

    def press(self, key):
        """Presses a key: a character, or a name of KEYS."""
        event = {'key': key}
        if key in KEYS:
            event.update(code=key, windowsVirtualKeyCode=KEYS[key])
        elif key.isalnum():
            event['windowsVirtualKeyCode'] = ord(key.upper())
        text = key if key not in KEYS else '\r' if key == 'Enter' else ''
        self.call('Input.dispatchKeyEvent', {
            'type': 'keyDown' if text else 'rawKeyDown', **event,
            **({'text': text} if text else {})})
        self.call('Input.dispatchKeyEvent', {'type': 'keyUp', **event})
        self.frames()

    def type(self, text):
        for character in text:
            self.press(character)

    def viewport(self, width, height=900):
        self.call('Emulation.setDeviceMetricsOverride', {
            'width': width, 'height': height, 'deviceScaleFactor': 1, 'mobile': False})

    def media(self, media=None, features=None):
        """Emulates a medium ('print') and features ({'prefers-color-scheme': 'dark'})."""
        self.call('Emulation.setEmulatedMedia', {
            'media': media or '',
            'features': [{'name': n, 'value': v} for n, v in (features or {}).items()]})

    def screenshot(self, path, full=True):
        """Writes a PNG of the page, at most 8192 pixels high."""
        size = self.call('Page.getLayoutMetrics')['cssContentSize']
        clip = {'x': 0, 'y': 0, 'width': size['width'], 'scale': 1,
                'height': min(size['height'], 8192)}
        data = self.call('Page.captureScreenshot', {
            'format': 'png', 'captureBeyondViewport': full, **({'clip': clip} if full else {})})
        pathlib.Path(path).write_bytes(base64.b64decode(data['data']))

    def pdf(self):
        """The bytes of the printed page."""
        return base64.b64decode(self.call('Page.printToPDF', {'printBackground': True})['data'])

    def visible_text(self):
        """The text that the page shows. It works without scripts."""
        nodes = self.call('Accessibility.getFullAXTree')['nodes']
        return ' '.join(n['name']['value'] for n in nodes
                        if n.get('role', {}).get('value') == 'StaticText' and n.get('name'))
