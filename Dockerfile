FROM node:20-bookworm-slim AS build
WORKDIR /takeover
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts --omit=optional
COPY . .
RUN npm run build && npm prune --omit=dev --omit=optional --ignore-scripts

FROM node:20-bookworm-slim
ENV NODE_ENV=production
WORKDIR /takeover
COPY --from=build /takeover/package.json ./
COPY --from=build /takeover/node_modules ./node_modules
COPY --from=build /takeover/dist ./dist
COPY --from=build /takeover/migrations ./migrations
COPY --from=build /takeover/proto ./proto
USER node
# node itself, not npm: it must receive the signals.
ENTRYPOINT ["node", "dist/src/main.js"]
