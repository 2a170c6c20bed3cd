import os
import unittest
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support import expected_conditions as EC
from selenium.webdriver.support.ui import WebDriverWait

BASE = os.environ.get("STAGING_URL", "https://staging.example.com")
USER = os.environ.get("E2E_USER", "e2e@example.com")
PASSWORD = os.environ.get("E2E_PASSWORD", "")


class LoginTest(unittest.TestCase):
    def setUp(self):
        opts = webdriver.ChromeOptions()
        opts.add_argument("--headless=new")
        opts.add_argument("--window-size=1280,900")
        opts.add_argument("--no-sandbox")
        self.driver = webdriver.Chrome(options=opts)
        self.addCleanup(self.driver.quit)
        self.wait = WebDriverWait(self.driver, 10)

    def tearDown(self):
        for _, error in getattr(self._outcome, "errors", []):
            if error:
                Path("screenshots").mkdir(exist_ok=True)
                self.driver.save_screenshot(f"screenshots/{self.id()}.png")

    def login(self, user, password):
        self.driver.get(f"{BASE}/login")
        self.wait.until(EC.visibility_of_element_located((By.NAME, "email"))).send_keys(user)
        self.driver.find_element(By.NAME, "password").send_keys(password)
        self.driver.find_element(By.CSS_SELECTOR, "button[type=submit]").click()

    @unittest.skipUnless(PASSWORD, "E2E_PASSWORD is not set")
    def test_login_shows_dashboard(self):
        self.login(USER, PASSWORD)
        self.wait.until(EC.url_contains("/dashboard"))
        self.assertIn("Dashboard", self.driver.title)
        self.assertTrue(self.driver.find_elements(By.CSS_SELECTOR, ".widget"))

    def test_wrong_password(self):
        self.login(USER, "definitely-wrong")
        alert = self.wait.until(EC.visibility_of_element_located((By.CSS_SELECTOR, "[role=alert]")))
        self.assertIn("incorrect", alert.text.lower())


if __name__ == "__main__":
    unittest.main()
