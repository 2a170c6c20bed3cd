const axios = require('axios');

class ApiClient {
  constructor({ baseURL, refreshToken, onTokens = () => {} }) {
    this.refreshToken = refreshToken;
    this.accessToken = null;
    this.onTokens = onTokens;
    this.refreshing = null;
    this.http = axios.create({ baseURL, timeout: 10000 });

    this.http.interceptors.request.use((config) => {
      if (this.accessToken) config.headers.Authorization = `Bearer ${this.accessToken}`;
      return config;
    });

    this.http.interceptors.response.use(undefined, (error) => this.handleError(error));
  }

  async handleError(error) {
    const { config, response } = error;
    if (response && response.status === 401 && !config._retried) {
      config._retried = true;
      await this.refresh();
      return this.http(config);
    }
    if ((!response || response.status >= 500) && (config._attempt || 0) < 2) {
      config._attempt = (config._attempt || 0) + 1;
      await new Promise((r) => setTimeout(r, 500 * 2 ** config._attempt));
      return this.http(config);
    }
    throw error;
  }

  refresh() {
    // share one refresh between parallel requests
    this.refreshing ??= axios
      .post('/auth/refresh', { refreshToken: this.refreshToken }, { baseURL: this.http.defaults.baseURL })
      .then(({ data }) => {
        this.accessToken = data.accessToken;
        this.refreshToken = data.refreshToken;
        this.onTokens(data);
      })
      .finally(() => {
        this.refreshing = null;
      });
    return this.refreshing;
  }

  get(url, params) {
    return this.http.get(url, { params }).then((r) => r.data);
  }

  post(url, body) {
    return this.http.post(url, body).then((r) => r.data);
  }
}

module.exports = { ApiClient };

if (require.main === module) {
  const client = new ApiClient({ baseURL: process.env.API_URL, refreshToken: process.env.REFRESH_TOKEN });
  client.get('/me').then(console.log, (e) => console.error('failed:', e.message));
}
